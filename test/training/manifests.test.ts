import { StatefulSet } from "kubernetes-models/apps/v1/StatefulSet";
import { Job } from "kubernetes-models/batch/v1/Job";
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import { PersistentVolumeClaim } from "kubernetes-models/v1/PersistentVolumeClaim";
import { Service } from "kubernetes-models/v1/Service";
import { describe, expect, it } from "vitest";
import { parseAllDocuments, stringify } from "yaml";
import { checkBelowMount, parseVolumes, podVolumes } from "../../src/training/kubernetes/volumes.js";
import { type Manifest, type ManifestOptions, makeManifests } from "../../src/training/manifests.js";

const SCHEMAS: Record<string, { prototype: { validate(): void } }> = {
  StatefulSet,
  Job,
  NetworkPolicy,
  PersistentVolumeClaim,
  Service,
};

const OPTIONS: ManifestOptions = {
  modelDef: "/model/model.js",
  jobName: "job",
  image: "model:1",
  numPs: 2,
  numWorkers: 3,
  namespace: "team",
  checkpointDir: "/data/ckpt",
  volume: "claim_name=c1,mount_path=/data",
};

const EVERYTHING: ManifestOptions = {
  ...OPTIONS,
  imagePullPolicy: "Always",
  volume:
    "claim_name=c1,mount_path=/data,sub_path=a;claim_name=c1,mount_path=/b;host_path=/h,mount_path=/q,type=Directory",
  claimSize: "20Gi",
  storageClass: "nfs",
  restartPolicy: "OnFailure",
  resourceRequest: { master: "cpu=500m", ps: "cpu=2,memory=4096Mi", worker: "cpu=1,gpu=1" },
  resourceLimit: { ps: "memory=8Gi,disk=1Gi" },
  podPriority: { ps: "high" },
  nodeSelector: "disk=ssd",
  envs: "A=1,B=x=y",
};

/** A value that notes which of its properties were looked at. */
function traced<T>(value: T, path: string, unseen: Set<string>): T {
  if (typeof value !== "object" || value === null) return value;
  for (const key of Object.keys(value)) unseen.add(`${path}/${key}`);
  return new Proxy(value, {
    get(target, key) {
      if (typeof key === "string") unseen.delete(`${path}/${key}`);
      const found: unknown = Reflect.get(target, key);
      return typeof key === "string" ? traced(found, `${path}/${key}`, unseen) : found;
    },
  });
}

/** Checks against Kubernetes's schema, and gives the fields that it does not know: no property of theirs is looked at. */
function unknownFields(manifest: Manifest): string[] {
  const schema = SCHEMAS[manifest.kind];
  if (schema === undefined) throw new Error(`no schema of ${manifest.kind}`);
  const unseen = new Set<string>();
  schema.prototype.validate.call(traced(manifest, manifest.kind, unseen));
  return [...unseen];
}

function find(kind: string, name: string, options = OPTIONS): Manifest {
  const { manifests } = makeManifests(options);
  const found = manifests.find((one) => one.kind === kind && one.metadata.name === name);
  if (found === undefined) throw new Error(`no ${kind} ${name}`);
  return found;
}

// biome-ignore lint/suspicious/noExplicitAny: the tests look into objects of many kinds.
const podOf = (manifest: Manifest): any => (manifest.spec as any).template.spec;

describe("the manifests of a training", () => {
  it.each([
    ["few options", OPTIONS],
    ["every option", EVERYTHING],
    ["no volume", { ...OPTIONS, checkpointDir: undefined, volume: undefined }],
  ])("fit Kubernetes's schemas, with %s", (_name, options) => {
    for (const manifest of makeManifests(options).manifests) expect(unknownFields(manifest)).toEqual([]);
  });

  it("are held to the schemas: a wrong type, a field too many and one too few are found", () => {
    const service = find("Service", "job-ps");
    expect(() => unknownFields({ ...service, spec: { ...service.spec, ports: [{ port: "http" }] } })).toThrow(
      /integer/,
    );
    expect(unknownFields({ ...service, spec: { ...service.spec, porst: [] } })).toEqual(["Service/spec/porst"]);
    const set = find("StatefulSet", "job-ps");
    expect(() => unknownFields({ ...set, spec: { ...set.spec, selector: undefined } })).toThrow(/selector/);
  });

  it("read back from YAML as they were", () => {
    for (const manifest of makeManifests(EVERYTHING).manifests) {
      const text = stringify(manifest, { aliasDuplicateObjects: false, lineWidth: 0 });
      expect(text).not.toMatch(/[&*]a\d/);
      expect(parseAllDocuments(text).map((document) => document.toJS())).toEqual([
        JSON.parse(JSON.stringify(manifest)),
      ]);
    }
  });

  it("are named and labelled as ElasticDL's pods", () => {
    const { manifests } = makeManifests(OPTIONS);
    expect(manifests.map(({ kind, metadata: { name } }) => `${kind} ${name}`)).toEqual([
      "NetworkPolicy job",
      "Service job-ps",
      "Service job-ps-0",
      "Service job-ps-1",
      "Service elasticdl-job-master",
      "StatefulSet job-ps",
      "Job elasticdl-job-master",
      "Job job-worker",
    ]);
    const labels = { app: "elasticdl", "elasticdl-job-name": "job", "elasticdl-replica-type": "worker" };
    expect(find("Job", "job-worker").spec).toMatchObject({ template: { metadata: { labels } } });
    expect(manifests.every(({ metadata }) => metadata.namespace === "team")).toBe(true);
  });

  it("select the pods that they make, and no others", () => {
    const { manifests } = makeManifests(OPTIONS);
    const pods = manifests.flatMap(({ kind, spec, metadata: { name } }) => {
      const { template } = spec as { template?: { metadata: { labels: Record<string, string> } } };
      return template === undefined ? [] : [{ kind, name, labels: template.metadata.labels }];
    });
    const selected = (selector: Record<string, string>) => {
      const { "statefulset.kubernetes.io/pod-name": _pod, ...rest } = selector;
      return pods.filter(({ labels }) => Object.entries(rest).every(([key, value]) => labels[key] === value));
    };
    const services = manifests.filter(({ kind }) => kind === "Service");
    const ofServices = services.map((one) => selected((one.spec as { selector: Record<string, string> }).selector));
    expect(ofServices.map((list) => list.map(({ name }) => name))).toEqual([
      ["job-ps"],
      ["job-ps"],
      ["job-ps"],
      ["elasticdl-job-master"],
    ]);
    expect(selected({ app: "elasticdl", "elasticdl-job-name": "job" })).toHaveLength(3);
  });

  it("let every pod reach the servers by the Services' names", () => {
    const addresses = "job-ps-0.team.svc:2222,job-ps-1.team.svc:2222";
    expect(podOf(find("Job", "elasticdl-job-master")).containers[0].args).toContain(addresses);
    expect(podOf(find("Job", "job-worker")).containers[0].args).toContain("elasticdl-job-master.team.svc:50001");
  });

  it("save on SIGTERM, go on from the newest version, and have time for it", () => {
    const pod = podOf(find("StatefulSet", "job-ps", { ...OPTIONS, gracePeriod: 600 }));
    expect(pod.terminationGracePeriodSeconds).toBe(600);
    expect(pod.restartPolicy).toBe("Always");
    expect(pod.containers[0].args).toContain("--save-on-exit");
    // The process that gets the signal is cairn itself, no shell.
    expect(pod.containers[0].command).toEqual(["cairn"]);
  });

  it("keep node drains out of the count of failures, where Kubernetes allows that", () => {
    expect(find("Job", "job-worker").spec).toHaveProperty("podFailurePolicy");
    expect(find("Job", "job-worker", EVERYTHING).spec).not.toHaveProperty("podFailurePolicy");
  });

  it("mount what is given twice as one volume", () => {
    expect(podVolumes(parseVolumes(EVERYTHING.volume ?? ""), "job-ps")).toEqual({
      volumes: [
        { name: "job-ps-volume-0", persistentVolumeClaim: { claimName: "c1", readOnly: false } },
        { name: "job-ps-volume-1", hostPath: { path: "/h", type: "Directory" } },
      ],
      volumeMounts: [
        { name: "job-ps-volume-0", mountPath: "/data", subPath: "a" },
        { name: "job-ps-volume-0", mountPath: "/b" },
        { name: "job-ps-volume-1", mountPath: "/q" },
      ],
    });
  });

  it("make each claim once, for writers on any node", () => {
    const claims = makeManifests(EVERYTHING).manifests.filter(({ kind }) => kind === "PersistentVolumeClaim");
    expect(claims).toMatchObject([
      {
        metadata: { name: "c1" },
        spec: { accessModes: ["ReadWriteMany"], resources: { requests: { storage: "20Gi" } }, storageClassName: "nfs" },
      },
    ]);
  });

  it("say that a directory of one node is that of one node", () => {
    const volume = "host_path=/h,mount_path=/data";
    expect(makeManifests({ ...OPTIONS, volume }).notes.join()).toContain("one node");
    expect(makeManifests(OPTIONS).notes.join()).not.toContain("one node");
  });

  it.each<[string, Partial<ManifestOptions>, RegExp]>([
    ["a checkpoint directory that is the mount", { checkpointDir: "/data/" }, /where a volume is mounted/],
    ["a checkpoint directory on no volume", { checkpointDir: "/database/ckpt" }, /lies on no volume/],
    ["a checkpoint directory outside by ..", { checkpointDir: "/data/../ckpt" }, /without \.\./],
    ["a job name that is no label", { jobName: "Job_1" }, /name of the job/],
    ["a job name that is too long", { jobName: "j".repeat(41) }, /name of the job/],
    ["pods that never end", { restartPolicy: "Always" }, /restarted Always/],
    ["no servers", { numPs: 0 }, /number of parameter servers/],
    ["two volumes at one place", { volume: "claim_name=a,mount_path=/p;claim_name=b,mount_path=/p/" }, /mounted at/],
    ["a volume of two kinds", { volume: "claim_name=a,host_path=/h,mount_path=/p" }, /claim_name or a host_path/],
    ["a volume without a place", { volume: "claim_name=a" }, /lacks a mount_path/],
    ["an unknown setting", { volume: "claim=a,mount_path=/p" }, /no setting/],
    ["a setting twice", { volume: "claim_name=a,claim_name=b,mount_path=/p" }, /twice/],
    ["a sub_path that leads out", { volume: "claim_name=a,mount_path=/p,sub_path=../x" }, /inside the volume/],
    ["an amount that is none", { resourceLimit: { ps: "cpu=lots" } }, /amount/],
    ["an unknown resource", { resourceRequest: { ps: "cores=2" } }, /no setting/],
    ["a variable that is none", { envs: "A B=1" }, /no setting/],
  ])("refuse %s", (_name, options, message) => {
    expect(() => makeManifests({ ...OPTIONS, ...options })).toThrow(message);
  });

  it("take a directory anywhere below a mount at the root", () => {
    checkBelowMount("/ckpt", parseVolumes("claim_name=c,mount_path=/"));
  });
});
