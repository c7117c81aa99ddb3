import { Command, Option } from "commander";
import { UsageError } from "../../errors.js";
import type { Layout } from "../../formats/elasticdl/names.js";
import type { Manifest, ManifestOptions, Role } from "../../training/manifests.js";
import { runCommand } from "../run.js";
import type { Terminal } from "../terminal.js";
import { addTrainingOptions, count, countFromOne, jobOptions, type TrainingFlags } from "../training-options.js";

interface Flags
  extends TrainingFlags,
    Omit<ManifestOptions, "modelDef" | "resourceRequest" | "resourceLimit" | "podPriority" | "args" | "checkpointDir"> {
  readonly numWorkers: number;
  readonly optType?: string;
  readonly optArgs?: string;
  readonly syncVersionTolerance: number;
  readonly lrStalenessModulation?: boolean;
  readonly layout: Layout;
  readonly output?: string;
  readonly force?: boolean;
}

const ROLES: readonly Role[] = ["master", "ps", "worker"];

/** `cairn manifests MODEL_DEF` */
export function manifestsCommand(): Command {
  const command = new Command("manifests")
    .summary("print what runs a training on Kubernetes")
    .description(
      "Prints the Kubernetes objects that run a training: parameter servers, a master, workers, and what they need, for `kubectl apply -f -`. Nothing is sent to a cluster.",
    )
    .argument("<model-def>", "module with the model definition, as the containers see it")
    .requiredOption("--image <image>", "container image with cairn and the model definition")
    .option("--job-name <name>", "part of every name and label", "training")
    .option("--namespace <name>", "where it runs", "default")
    .option("--num-ps <count>", "parameter servers", countFromOne, 1)
    .option("--volume <mounts>", "volumes of every pod, as claim_name=c1,mount_path=/p;host_path=/h,mount_path=/q")
    .option("--claim-size <amount>", "make the claims of --volume too, each of this size, as 20Gi")
    .option("--storage-class <name>", "storage class of these claims")
    .addOption(
      new Option("--restart-policy <policy>", "a master or worker that failed: a new pod, or the same one anew")
        .choices(["Never", "OnFailure", "Always"])
        .default("Never"),
    )
    .option("--relaunch-on-worker-failure <count>", "how often a failed worker is started anew", count, 1)
    .addOption(
      new Option("--image-pull-policy <policy>", "when the image is fetched").choices([
        "Always",
        "IfNotPresent",
        "Never",
      ]),
    );
  for (const role of ROLES) {
    command
      .option(`--${role}-resource-request <amounts>`, "what is set aside for a pod, as cpu=1,memory=4096Mi")
      .option(`--${role}-resource-limit <amounts>`, "the most that a pod gets")
      .option(`--${role}-pod-priority <class>`, "its priority class");
  }
  command
    .option("--node-selector <labels>", "labels of the nodes to run on, as disk=ssd")
    .option("--envs <variables>", "environment of every container, as A=1,B=2")
    .option("--grace-period <seconds>", "how long a server that is told to stop may take to save", count, 300)
    .option("--run-as-user <id>", "user and group of the containers", count, 1000)
    .option("--no-network-policy", "let pods of other jobs reach those of this one");
  return addTrainingOptions(command)
    .option("--opt-type <type>", "SGD, Adam or Adagrad, as the definition says", "SGD")
    .option("--opt-args <settings>", "settings, as learning_rate=0.1;momentum=0.9;nesterov=true;")
    .option("--sync-version-tolerance <count>", "versions that a push may be behind, without --use-async", count, 0)
    .option("--lr-staleness-modulation", "divide a push's learning rate by how far it is behind, with --use-async")
    .addOption(
      new Option("--layout <layout>", "names of versions and shards")
        .choices(["design", "elasticdl"])
        .default("design"),
    )
    .option("-o, --output <dir>", "write a file for each object instead")
    .option("--force", "replace files that exist")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn manifests /model/model.js --image registry.example/model:1 --volume claim_name=training,mount_path=/data --checkpoint-dir /data/ckpt | kubectl apply -f -\n  cairn manifests /model/model.js --image model:1 --num-ps 4 --num-workers 8 -o deploy",
    )
    .action((modelDef: string, options: Flags) => runCommand(options, (terminal) => run(modelDef, options, terminal)));
}

async function run(modelDef: string, options: Flags, terminal: Terminal): Promise<void> {
  const { makeManifests } = await import("../../training/manifests.js");
  const { checkJob, masterArguments } = await import("../../training/job/job-options.js");
  const job = { ...jobOptions(options), initPath: startOf(options) };
  checkJob(job);
  if (job.strategy !== "parameter-server") {
    throw new UsageError("usage", `--strategy ${job.strategy} on a cluster`, {
      hint: "Run `cairn train` in one pod: its workers are processes of that pod.",
    });
  }
  const { manifests, notes } = makeManifests({
    ...options,
    modelDef,
    resourceRequest: ofRoles(options, "ResourceRequest"),
    resourceLimit: ofRoles(options, "ResourceLimit"),
    podPriority: ofRoles(options, "PodPriority"),
    args: { ps: serverArguments(options), master: masterArguments(job) },
  });
  const { stringify } = await import("yaml");
  const yaml = (manifest: Manifest) => stringify(manifest, { aliasDuplicateObjects: false, lineWidth: 0 });
  for (const note of notes) terminal.note(note);
  if (options.output !== undefined) {
    const { writeFiles } = await import("../write-files.js");
    const files = manifests.map((manifest) => ({
      name: `${manifest.kind.toLowerCase()}-${manifest.metadata.name}.yaml`,
      text: yaml(manifest),
    }));
    const paths = await writeFiles(options.output, files, options.force === true);
    for (const path of paths) terminal.print(path);
  } else if (!options.json) process.stdout.write(manifests.map(yaml).join("---\n"));
  terminal.json({ apiVersion: "v1", kind: "List", items: manifests });
}

function ofRoles(options: Flags, setting: string): Partial<Record<Role, string>> {
  const given = options as Readonly<Record<string, unknown>> & Flags;
  const entries = ROLES.map((role) => [role, given[`${role}${setting}`]] as const);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as Partial<Record<Role, string>>;
}

/** What the servers are told of the training beside what the master is. */
function serverArguments(options: Flags): string[] {
  const { useAsync, lrStalenessModulation, checkpointDir, checkpointSteps, keepCheckpointMax, layout } = options;
  const value = (flag: string, given: unknown) => (given === undefined ? [] : [flag, `${given}`]);
  const saving = [
    ...value("--checkpoint-steps", checkpointSteps),
    ...value("--keep-checkpoint-max", keepCheckpointMax),
    ...value("--layout", layout),
  ];
  return [
    ...value("--opt-type", options.optType),
    ...value("--opt-args", options.optArgs),
    ...value("--seed", options.seed),
    ...(useAsync === true ? ["--use-async"] : []),
    ...value("--grads-to-wait", options.gradsToWait),
    ...value("--sync-version-tolerance", options.syncVersionTolerance),
    ...(lrStalenessModulation === true ? ["--lr-staleness-modulation"] : []),
    ...(checkpointDir === undefined ? [] : saving),
    ...value("--checkpoint-dir-for-init", startOf(options)),
  ];
}

/** Where master and servers begin: a pod that is started anew goes on from what was saved last. */
function startOf({ checkpointDirForInit, checkpointDir }: Flags): string | undefined {
  return checkpointDirForInit ?? (checkpointDir === undefined ? undefined : "latest");
}
