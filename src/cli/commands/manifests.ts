import { Command, InvalidArgumentError, Option } from "commander";
import type { Manifest, ManifestOptions, Role } from "../../training/manifests.js";
import { runCommand } from "../run.js";
import type { CommonOptions, Terminal } from "../terminal.js";

type Flags = Omit<ManifestOptions, "modelDef" | "resourceRequest" | "resourceLimit" | "podPriority" | "args"> &
  CommonOptions &
  Readonly<Record<string, unknown>> & { readonly output?: string; readonly force?: boolean };

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
    .option("--num-ps <count>", "parameter servers", count, 2)
    .option("--num-workers <count>", "workers", count, 2)
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
    .option("-o, --output <dir>", "write a file for each object instead")
    .option("--force", "replace files that exist")
    .addHelpText(
      "after",
      "\nExamples:\n  cairn manifests /model/model.js --image registry.example/model:1 --volume claim_name=training,mount_path=/data --checkpoint-dir /data/ckpt | kubectl apply -f -\n  cairn manifests /model/model.js --image model:1 --num-ps 4 --num-workers 8 -o deploy",
    )
    .action((modelDef: string, options: Flags) => runCommand(options, (terminal) => run(modelDef, options, terminal)));
}

/** Options of the training, with who is told of them. */
const TRAINING: readonly (readonly [flags: string, description: string, roles: readonly Role[]])[] = [
  ["--checkpoint-steps <count>", "save every so many versions; 0 never", ["ps"]],
  ["--keep-checkpoint-max <count>", "versions that are kept; 0 keeps all", ["ps"]],
  ["--checkpoint-dir-for-init <dir>", "go on from a version; unless said from the newest of the own ones", ["ps"]],
  ["--layout <layout>", "names of versions and shards: design or elasticdl", ["ps"]],
  ["--opt-type <type>", "SGD, Adam or Adagrad", ["ps"]],
  ["--opt-args <settings>", "settings, as learning_rate=0.1;momentum=0.9;nesterov=true;", ["ps"]],
  ["--use-async", "apply each push at once", ["ps"]],
  ["--grads-to-wait <count>", "pushes that are applied together, without --use-async", ["ps"]],
  ["--sync-version-tolerance <count>", "versions that a push may be behind, without --use-async", ["ps"]],
  ["--lr-staleness-modulation", "divide a push's learning rate by how far it is behind", ["ps"]],
];

function addTrainingOptions(command: Command): Command {
  command.option("--checkpoint-dir <dir>", "where versions are saved: a directory below the mount of a volume");
  for (const [flags, description] of TRAINING) command.option(flags, description);
  return command;
}

async function run(modelDef: string, options: Flags, terminal: Terminal): Promise<void> {
  const { makeManifests } = await import("../../training/manifests.js");
  const { manifests, notes } = makeManifests({
    ...options,
    modelDef,
    resourceRequest: ofRoles(options, "ResourceRequest"),
    resourceLimit: ofRoles(options, "ResourceLimit"),
    podPriority: ofRoles(options, "PodPriority"),
    args: Object.fromEntries(ROLES.map((role) => [role, argumentsOf(role, options)])),
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
  const entries = ROLES.map((role) => [role, options[`${role}${setting}`]] as const);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as Partial<Record<Role, string>>;
}

/** What a role's command is told of the training. */
function argumentsOf(role: Role, options: Flags): string[] {
  const { checkpointDir } = options;
  const given: Flags = { ...(role === "ps" && checkpointDir ? { checkpointDirForInit: "latest" } : {}), ...options };
  return TRAINING.filter(([, , roles]) => roles.includes(role)).flatMap(([flags]) => {
    const { long, attributeName } = describe(flags);
    const value = given[attributeName];
    if (value === undefined || value === false) return [];
    return value === true ? [long] : [long, `${value}`];
  });
}

function describe(flags: string): { long: string; attributeName: string } {
  const option = new Option(flags);
  return { long: option.long ?? "", attributeName: option.attributeName() };
}

function count(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It has to be a whole number from 0.");
}
