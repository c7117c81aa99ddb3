import { UsageError } from "../../errors.js";
import { type Amounts, parseEnvs, parseResources } from "./resources.js";
import { checkBelowMount, checkName, cleanPath, parseVolumes, type VolumeMount } from "./volumes.js";

/** What the pods of a training do: one master, parameter servers, workers. */
export type Role = "master" | "ps" | "worker";

/** What runs on a cluster, and how. Names are ElasticDL's where it has the setting. */
export interface ManifestOptions {
  /** The module with the model definition, as the pods see it. */
  readonly modelDef: string;
  /** Part of every name and label. */
  readonly jobName: string;
  readonly namespace?: string | undefined;
  /** The container image with cairn, the model definition and what that imports. */
  readonly image: string;
  readonly imagePullPolicy?: "Always" | "IfNotPresent" | "Never" | undefined;
  readonly numPs: number;
  readonly numWorkers: number;
  /** Where versions are saved: below a volume that all pods share. */
  readonly checkpointDir?: string | undefined;
  /** See {@link parseVolumes}. */
  readonly volume?: string | undefined;
  /** Makes the claims of the volumes too, each of this size. */
  readonly claimSize?: string | undefined;
  readonly storageClass?: string | undefined;
  /** What becomes of a master or worker that failed: a new pod (`Never`), or the same one anew (`OnFailure`). */
  readonly restartPolicy?: "Never" | "OnFailure" | "Always" | undefined;
  /** How often a failed worker is started anew. */
  readonly relaunchOnWorkerFailure?: number | undefined;
  /** As `cpu=1,memory=4096Mi`. */
  readonly resourceRequest?: Readonly<Partial<Record<Role, string>>> | undefined;
  readonly resourceLimit?: Readonly<Partial<Record<Role, string>>> | undefined;
  /** Names of priority classes. */
  readonly podPriority?: Readonly<Partial<Record<Role, string>>> | undefined;
  /** Labels of nodes, as `disk=ssd`. */
  readonly nodeSelector?: string | undefined;
  /** Variables of every container, as `A=1,B=2`. */
  readonly envs?: string | undefined;
  /** How long a server that is told to stop may take to save, in seconds. */
  readonly gracePeriod?: number | undefined;
  /** The user and group that the containers run as. */
  readonly runAsUser?: number | undefined;
  /** Lets only the pods of the job reach one another. */
  readonly networkPolicy?: boolean | undefined;
  /** What else the commands of the roles are given: flags with their values. */
  readonly args?: Readonly<Partial<Record<Role, readonly string[]>>> | undefined;
}

/** {@link ManifestOptions} that have been checked. */
export interface CheckedOptions extends ManifestOptions {
  readonly namespace: string;
  readonly mounts: readonly VolumeMount[];
  readonly requests: Readonly<Partial<Record<Role, Amounts>>>;
  readonly limits: Readonly<Partial<Record<Role, Amounts>>>;
  readonly environment: readonly { readonly name: string; readonly value: string }[];
  readonly restartPolicy: "Never" | "OnFailure";
  readonly gracePeriod: number;
  readonly runAsUser: number;
}

/** The longest name of a pod is `elasticdl-JOB-master-xxxxx`, and Kubernetes takes 63 letters (RFC 1123 labels). */
const MAX_JOB_NAME = 40;
/** What a server may take to save what it has, 5 minutes. */
const GRACE_SECONDS = 300;
/** The user `node` of Node's images. */
const NODE_USER = 1000;

/** Checks options. @throws {@link UsageError} (`usage`) */
export function checkOptions(options: ManifestOptions): CheckedOptions {
  const { jobName, numPs, numWorkers, envs, namespace = "default", restartPolicy = "Never" } = options;
  // A Service's name begins with a letter: RFC 1035 labels.
  if (!/^[a-z]([-a-z0-9]*[a-z0-9])?$/.test(jobName) || jobName.length > MAX_JOB_NAME) {
    const expected = `lower-case letters, digits and dashes, at most ${MAX_JOB_NAME}, a letter first`;
    throw new UsageError("usage", "the name of the job", { expected, actual: jobName });
  }
  if (restartPolicy === "Always") {
    const hint = "Never makes a new pod for one that failed, OnFailure starts it anew. Servers are always restarted.";
    throw new UsageError("usage", "a training ends, and pods that are restarted Always do not", { hint });
  }
  checkCount(numPs, "parameter servers");
  checkCount(numWorkers, "workers");
  if (options.image.trim() === "") throw new UsageError("usage", "no image is named");
  const mounts = parseVolumes(options.volume ?? "");
  const checkpointDir = options.checkpointDir && cleanPath(options.checkpointDir, "--checkpoint-dir");
  if (checkpointDir) checkBelowMount(checkpointDir, mounts);
  if (options.storageClass !== undefined) checkName(options.storageClass, "--storage-class");
  return {
    ...options,
    checkpointDir: checkpointDir || undefined,
    namespace: checkName(namespace, "--namespace"),
    mounts,
    requests: parseAll(options.resourceRequest, "resource-request"),
    limits: parseAll(options.resourceLimit, "resource-limit"),
    environment: envs === undefined ? [] : parseEnvs(envs, "--envs"),
    restartPolicy,
    gracePeriod: options.gracePeriod ?? GRACE_SECONDS,
    runAsUser: options.runAsUser ?? NODE_USER,
  };
}

function parseAll(given: ManifestOptions["resourceRequest"], flag: string): Partial<Record<Role, Amounts>> {
  const entries = Object.entries(given ?? {}).filter(([, text]) => text !== undefined);
  return Object.fromEntries(entries.map(([role, text]) => [role, parseResources(text, `--${role}-${flag}`)]));
}

function checkCount(count: number, what: string): void {
  if (Number.isInteger(count) && count >= 1 && count <= 1000) return;
  throw new UsageError("usage", `the number of ${what}`, { expected: "1 to 1000", actual: count });
}
