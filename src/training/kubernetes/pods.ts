import type { CheckedOptions, Role } from "./options.js";
import { parseSettings, podVolumes } from "./volumes.js";

/** The ports of ElasticDL. */
export const PORTS = { master: 50001, ps: 2222, worker: 3333 } as const;

/** The name of what runs a role; pods have it with their number behind it. ElasticDL: common/k8s_client.py. */
export function roleName(jobName: string, role: Role): string {
  return role === "master" ? `elasticdl-${jobName}-master` : `${jobName}-${role}`;
}

/** The labels that ElasticDL gives its pods. */
export function labelsOf(jobName: string, role?: Role): Record<string, string> {
  const labels = { app: "elasticdl", "elasticdl-job-name": jobName };
  return role === undefined ? labels : { ...labels, "elasticdl-replica-type": role };
}

/** The address of a Service of the job, inside the cluster. */
export function serviceAddress(name: string, namespace: string, port: number): string {
  return `${name}.${namespace}.svc:${port}`;
}

/** What a container is told by the cluster. */
const POD_IP = { name: "MY_POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } };

/** The number of a pod of its role: each kind of controller says it in a place of its own. */
const INDEX = {
  // Kubernetes 1.28, StatefulSet.
  ps: { name: "PS_ID", valueFrom: { fieldRef: { fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']" } } },
  // Kubernetes 1.24, Indexed Job.
  worker: {
    name: "WORKER_ID",
    valueFrom: { fieldRef: { fieldPath: "metadata.annotations['batch.kubernetes.io/job-completion-index']" } },
  },
} as const;

/** How long a server may take to restore its share before it is given up: 360 looks, one every 5 s. */
const STARTUP_LOOKS = 360;

/** The template of a role's pods, which run `cairn` with these arguments. */
export function podTemplate(role: Role, args: readonly string[], options: CheckedOptions) {
  const { jobName, podPriority, nodeSelector, runAsUser, mounts, gracePeriod } = options;
  const { volumes, volumeMounts } = podVolumes(mounts, roleName(jobName, role));
  const priority = podPriority?.[role];
  return {
    metadata: { labels: labelsOf(jobName, role) },
    spec: {
      restartPolicy: role === "ps" ? "Always" : options.restartPolicy,
      // SIGTERM makes a server end its calls and save, and nothing else is needed before.
      terminationGracePeriodSeconds: role === "ps" ? gracePeriod : 30,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...(priority === undefined ? {} : { priorityClassName: priority }),
      ...(nodeSelector === undefined ? {} : { nodeSelector: selectorOf(nodeSelector) }),
      securityContext: {
        runAsNonRoot: true,
        runAsUser,
        runAsGroup: runAsUser,
        fsGroup: runAsUser,
        fsGroupChangePolicy: "OnRootMismatch",
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [container(role, args, options, volumeMounts)],
      ...(volumes.length === 0 ? {} : { volumes }),
    },
  };
}

function container(role: Role, args: readonly string[], options: CheckedOptions, volumeMounts: readonly object[]) {
  const { image, imagePullPolicy, requests, limits, environment } = options;
  const [request, limit] = [requests[role], limits[role]];
  return {
    name: role,
    image,
    ...(imagePullPolicy === undefined ? {} : { imagePullPolicy }),
    command: ["cairn"],
    args: [...args],
    env: [POD_IP, ...(role === "master" ? [] : [INDEX[role]]), ...environment],
    ...(role === "worker" ? {} : { ports: [{ name: "grpc", containerPort: PORTS[role] }] }),
    ...(role === "worker" ? {} : probes()),
    resources: { ...(request && { requests: request }), ...(limit && { limits: limit }) },
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
    ...(volumeMounts.length === 0 ? {} : { volumeMounts }),
  };
}

/** A server takes connections when it has restored its share, and no sooner. */
function probes() {
  const tcpSocket = { port: "grpc" };
  return {
    startupProbe: { tcpSocket, periodSeconds: 5, failureThreshold: STARTUP_LOOKS },
    readinessProbe: { tcpSocket, periodSeconds: 5, failureThreshold: 2 },
    livenessProbe: { tcpSocket, periodSeconds: 15, timeoutSeconds: 10, failureThreshold: 6 },
  };
}

function selectorOf(text: string): Record<string, string> {
  return parseSettings(text, "--node-selector", (key) => /^[\w./-]+$/.test(key));
}
