import { type CheckedOptions, checkOptions, type ManifestOptions } from "./kubernetes/options.js";
import { labelsOf, PORTS, podTemplate, roleName, serviceAddress } from "./kubernetes/pods.js";
import { checkQuantity } from "./kubernetes/resources.js";

export type { ManifestOptions, Role } from "./kubernetes/options.js";

/** An object as a cluster takes it. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly labels: Readonly<Record<string, string>>;
  };
  readonly spec: object;
}

/** What runs a training on a cluster. */
export interface ManifestSet {
  /** In the order in which a cluster should get them. */
  readonly manifests: readonly Manifest[];
  /** What a user should know of them. */
  readonly notes: readonly string[];
}

/** The Kubernetes 1.28 API and later is meant; see docs/guide/kubernetes.md. */
const MASTER_RETRIES = 6;

/**
 * Makes the objects that run a training on Kubernetes: a StatefulSet of parameter servers, a Job of the master, a Job of
 * workers, and what they need. Names, labels and ports are those that ElasticDL gives its pods, so its workers find the
 * servers. It does no I/O.
 * @throws UsageError (`usage`)
 */
export function makeManifests(given: ManifestOptions): ManifestSet {
  const options = checkOptions(given);
  const manifests = [
    ...claims(options),
    ...(options.networkPolicy === false ? [] : [networkPolicy(options)]),
    ...services(options),
    parameterServers(options),
    master(options),
    workers(options),
  ];
  return { manifests, notes: notesOf(options) };
}

function manifest(apiVersion: string, kind: string, name: string, options: CheckedOptions, spec: object): Manifest {
  const { jobName, namespace } = options;
  return { apiVersion, kind, metadata: { name, namespace, labels: labelsOf(jobName) }, spec };
}

/** The claims of the volumes, where they are to be made: all pods write to them, wherever they run. */
function claims(options: CheckedOptions): Manifest[] {
  const { claimSize, storageClass, mounts } = options;
  if (claimSize === undefined) return [];
  const names = new Set(mounts.flatMap(({ from }) => ("claimName" in from ? [from.claimName] : [])));
  const spec = {
    accessModes: ["ReadWriteMany"],
    resources: { requests: { storage: checkQuantity(claimSize, "--claim-size") } },
    ...(storageClass === undefined ? {} : { storageClassName: storageClass }),
  };
  return [...names].map((name) => manifest("v1", "PersistentVolumeClaim", name, options, spec));
}

/** Whoever reaches a server can change the model: so only the pods of the job do. */
function networkPolicy(options: CheckedOptions): Manifest {
  const podSelector = { matchLabels: labelsOf(options.jobName) };
  const spec = { podSelector, policyTypes: ["Ingress"], ingress: [{ from: [{ podSelector }] }] };
  return manifest("networking.k8s.io/v1", "NetworkPolicy", options.jobName, options, spec);
}

function services(options: CheckedOptions): Manifest[] {
  const { jobName, numPs } = options;
  const service = (name: string, port: number, spec: object) =>
    manifest("v1", "Service", name, options, { ...spec, ports: [{ name: "grpc", port, targetPort: "grpc" }] });
  const psName = roleName(jobName, "ps");
  const psLabels = labelsOf(jobName, "ps");
  const perServer = Array.from({ length: numPs }, (_, i) =>
    service(`${psName}-${i}`, PORTS.ps, {
      selector: { ...psLabels, "statefulset.kubernetes.io/pod-name": `${psName}-${i}` },
    }),
  );
  return [
    service(psName, PORTS.ps, { clusterIP: "None", selector: psLabels }),
    ...perServer,
    service(roleName(jobName, "master"), PORTS.master, { selector: labelsOf(jobName, "master") }),
  ];
}

function parameterServers(options: CheckedOptions): Manifest {
  const { jobName, numPs, checkpointDir, args } = options;
  const name = roleName(jobName, "ps");
  const command = [
    ...["ps", "--host", "$(MY_POD_IP)", "--port", `${PORTS.ps}`],
    ...["--ps-id", "$(PS_ID)", "--num-ps", `${numPs}`],
    ...(checkpointDir === undefined ? [] : ["--checkpoint-dir", checkpointDir, "--save-on-exit"]),
    ...(args?.ps ?? []),
  ];
  return manifest("apps/v1", "StatefulSet", name, options, {
    serviceName: name,
    replicas: numPs,
    // All at once: a worker waits for all of them anyway, and a restart of one need not wait for another.
    podManagementPolicy: "Parallel",
    selector: { matchLabels: labelsOf(jobName, "ps") },
    template: podTemplate("ps", command, options),
  });
}

function master(options: CheckedOptions): Manifest {
  const { jobName, modelDef, args } = options;
  const command = [
    ...["master", modelDef, "--host", "$(MY_POD_IP)", "--port", `${PORTS.master}`],
    ...["--ps-addrs", psAddresses(options), ...(args?.master ?? [])],
  ];
  const template = podTemplate("master", command, options);
  return job(roleName(jobName, "master"), options, { backoffLimit: MASTER_RETRIES, template });
}

function workers(options: CheckedOptions): Manifest {
  const { jobName, modelDef, numWorkers, namespace, relaunchOnWorkerFailure = 1, args } = options;
  const masterAddress = serviceAddress(roleName(jobName, "master"), namespace, PORTS.master);
  const command = [
    ...["worker", modelDef, "--worker-id", "$(WORKER_ID)", "--master-addr", masterAddress],
    ...(args?.worker ?? []),
  ];
  return job(roleName(jobName, "worker"), options, {
    completions: numWorkers,
    parallelism: numWorkers,
    completionMode: "Indexed",
    backoffLimit: relaunchOnWorkerFailure * numWorkers,
    template: podTemplate("worker", command, options),
  });
}

function job(name: string, options: CheckedOptions, spec: object): Manifest {
  // A node that is emptied is no failure of the pod. Kubernetes has it for pods of `Never` only.
  const ignored = [{ action: "Ignore", onPodConditions: [{ type: "DisruptionTarget", status: "True" }] }];
  const policy = options.restartPolicy === "Never" ? { podFailurePolicy: { rules: ignored } } : {};
  return manifest("batch/v1", "Job", name, options, { ...spec, ...policy });
}

function psAddresses({ jobName, namespace, numPs }: CheckedOptions): string {
  const name = roleName(jobName, "ps");
  return Array.from({ length: numPs }, (_, i) => serviceAddress(`${name}-${i}`, namespace, PORTS.ps)).join(",");
}

function notesOf({ checkpointDir, mounts, numPs, numWorkers, jobName, namespace }: CheckedOptions): string[] {
  const notes: string[] = [];
  if (checkpointDir === undefined) notes.push("Without --checkpoint-dir, a server that stops takes its share with it.");
  if (mounts.some(({ from }) => "hostPath" in from) && numPs + numWorkers > 1) {
    notes.push(
      "A host_path is that of one node: pods of other nodes do not see it. Choose the node by --node-selector.",
    );
  }
  const labels = `elasticdl-job-name=${jobName}`;
  notes.push(`When it has ended: kubectl delete all,networkpolicy -n ${namespace} -l ${labels}`);
  return notes;
}
