import { UsageError } from "../../errors.js";

/** A directory of a claim or of the node, as a pod sees it. */
export interface VolumeMount {
  /** The PersistentVolumeClaim that it is of; or a directory of the node. */
  readonly from: { readonly claimName: string } | { readonly hostPath: string; readonly type?: string };
  /** Where it is in the pod; absolute. */
  readonly mountPath: string;
  /** The part of the volume that is mounted. */
  readonly subPath?: string;
}

// ElasticDL's `--volume`, as elasticdl_client/common/k8s_volume.py has it.
const KEYS = ["claim_name", "host_path", "mount_path", "sub_path", "type"];

// Kubernetes, HostPathVolumeSource.type.
const HOST_PATH_TYPES = [
  "DirectoryOrCreate",
  "Directory",
  "FileOrCreate",
  "File",
  "Socket",
  "CharDevice",
  "BlockDevice",
];

/**
 * Parses ElasticDL's `--volume`: mounts divided by `;`, of settings divided by `,`, as
 * `claim_name=c1,mount_path=/p;host_path=/h,mount_path=/q,type=Directory`.
 * @throws {@link UsageError} (`usage`)
 */
export function parseVolumes(text: string): VolumeMount[] {
  const mounts = text
    .split(";")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map(parseMount);
  const paths = mounts.map(({ mountPath }) => mountPath);
  const twice = paths.find((path, i) => paths.indexOf(path) !== i);
  if (twice !== undefined) throw new UsageError("usage", `--volume: two volumes are mounted at ${twice}`);
  return mounts;
}

function parseMount(part: string): VolumeMount {
  const settings = parseSettings(part, "--volume", (key) => KEYS.includes(key));
  const { claim_name: claimName, host_path: hostPath, mount_path: mountPath, sub_path: subPath, type } = settings;
  const wrong = (message: string) => new UsageError("usage", `--volume "${part}": ${message}`);
  if ((claimName === undefined) === (hostPath === undefined)) throw wrong("it takes a claim_name or a host_path");
  if (mountPath === undefined) throw wrong("it lacks a mount_path");
  const places = { mountPath: cleanPath(mountPath, "mount_path"), ...(subPath === undefined ? {} : { subPath }) };
  if (subPath !== undefined && (subPath.startsWith("/") || subPath.split("/").includes(".."))) {
    throw wrong("sub_path is a path inside the volume");
  }
  if (claimName !== undefined) {
    if (type !== undefined) throw wrong("type is of a host_path");
    return { from: { claimName: checkName(claimName, "claim_name") }, ...places };
  }
  if (type !== undefined && !HOST_PATH_TYPES.includes(type)) {
    throw wrong(`type is one of ${HOST_PATH_TYPES.join(", ")}`);
  }
  const from = { hostPath: cleanPath(hostPath ?? "", "host_path"), ...(type === undefined ? {} : { type }) };
  return { from, ...places };
}

/**
 * Parses settings such as `cpu=1,memory=2Gi`, each of which may stand once.
 * @throws {@link UsageError} (`usage`)
 */
export function parseSettings(text: string, flag: string, isKnown: (key: string) => boolean): Record<string, string> {
  const settings: Record<string, string> = {};
  for (const setting of text.split(",")) {
    const [, key = "", value = ""] = /^([^=]+)=(.*)$/.exec(setting.trim()) ?? [];
    if (key === "" || !isKnown(key)) throw new UsageError("usage", `${flag}: "${setting.trim()}" is no setting of it`);
    if (Object.hasOwn(settings, key)) throw new UsageError("usage", `${flag}: ${key} stands twice in "${text}"`);
    settings[key] = value;
  }
  return settings;
}

/** An absolute path without a slash at its end. @throws {@link UsageError} (`usage`) */
export function cleanPath(path: string, what: string): string {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  if (path.startsWith("/") && !parts.includes("..")) return `/${parts.join("/")}`;
  throw new UsageError("usage", `${what} is an absolute path without ..`, { actual: path });
}

/** A name as a claim, a class or a namespace has it. @throws {@link UsageError} (`usage`) */
export function checkName(name: string, what: string): string {
  // RFC 1123 subdomain, as Kubernetes has it in apimachinery's IsDNS1123Subdomain.
  const label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
  if (name.length <= 253 && new RegExp(`^${label}(\\.${label})*$`).test(name)) return name;
  throw new UsageError("usage", `${what} has lower-case letters, digits and dashes`, { actual: name });
}

/**
 * Checks that a directory lies below a mount. It is none itself: where a volume begins there may be a `lost+found`, and
 * what stands beside the checkpoint directory has to be on the same volume.
 * @throws {@link UsageError} (`usage`)
 */
export function checkBelowMount(directory: string, mounts: readonly VolumeMount[]): void {
  const hint = "Give it with --volume, as claim_name=training,mount_path=/data, and a directory below it: /data/ckpt.";
  const isBelow = ({ mountPath }: VolumeMount) => directory.startsWith(mountPath === "/" ? "/" : `${mountPath}/`);
  if (mounts.some(({ mountPath }) => mountPath === directory)) {
    throw new UsageError("usage", `${directory} is where a volume is mounted, not a directory below it`, { hint });
  }
  if (!mounts.some(isBelow)) throw new UsageError("usage", `${directory} lies on no volume`, { hint });
}

/** The volumes and mounts of a pod: what is mounted in several places is one volume. */
export function podVolumes(mounts: readonly VolumeMount[], podName: string) {
  const names = new Map<string, string>();
  const volumes: object[] = [];
  const volumeMounts = mounts.map(({ from, mountPath, subPath }) => {
    const id = JSON.stringify(from);
    let name = names.get(id);
    if (name === undefined) {
      name = `${podName}-volume-${names.size}`;
      names.set(id, name);
      const isClaim = "claimName" in from;
      volumes.push(
        isClaim
          ? { name, persistentVolumeClaim: { claimName: from.claimName, readOnly: false } }
          : { name, hostPath: { path: from.hostPath, ...(from.type === undefined ? {} : { type: from.type }) } },
      );
    }
    return { name, mountPath, ...(subPath === undefined ? {} : { subPath }) };
  });
  return { volumes, volumeMounts };
}
