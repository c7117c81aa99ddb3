import type { S3Client } from "@aws-sdk/client-s3";
import { CairnError, NotFoundError, StorageError, UnsupportedError, UsageError } from "../../errors.js";

/** The package of the client; it is loaded when an `s3://` path is used first. */
export type S3Package = typeof import("@aws-sdk/client-s3");

/** A server that sends nothing for so long is given up, in milliseconds. */
const STALL_TIMEOUT_MS = 30_000;

/** A client with its package. */
export interface LoadedS3 {
  readonly s3: S3Package;
  readonly client: S3Client;
}

/**
 * Loads the client's package and makes a client, if none is given. Region, endpoint and credentials are found as every AWS
 * tool finds them: environment, profiles, the machine's role.
 * @throws {@link UnsupportedError} (`unsupported-operation`) when the package is not installed
 */
export async function loadS3(given: S3Client | undefined): Promise<LoadedS3> {
  const { env } = process;
  // Its remark about the version of Node is not the user's concern.
  env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= "true";
  let s3: S3Package;
  try {
    s3 = await import("@aws-sdk/client-s3");
  } catch (cause) {
    throw new UnsupportedError("unsupported-operation", "s3:// needs the package @aws-sdk/client-s3", {
      cause,
      hint: "Install it beside cairn: npm install @aws-sdk/client-s3",
    });
  }
  if (given !== undefined) return { s3, client: given };
  const hasEndpoint = (env.AWS_ENDPOINT_URL_S3 ?? env.AWS_ENDPOINT_URL) !== undefined;
  const client = new s3.S3Client({
    // Servers other than Amazon's have no name of its own for each bucket, and no regions.
    ...(hasEndpoint ? { forcePathStyle: true } : {}),
    ...(hasEndpoint && env.AWS_REGION === undefined ? { region: env.AWS_DEFAULT_REGION ?? "us-east-1" } : {}),
    requestHandler: { connectionTimeout: 10_000, socketTimeout: STALL_TIMEOUT_MS },
  });
  return { s3, client };
}

/** Where an object is. */
export interface S3Place {
  readonly bucket: string;
  /** Without a slash at either end; empty for the bucket itself. */
  readonly key: string;
}

/**
 * The bucket and key of an `s3://bucket/key` path. Empty steps and those that stay where they are are left out, and `..`
 * goes up one, as in paths of files; keys that have such steps cannot be named.
 * @throws {@link UsageError} (`usage`)
 */
export function parseS3Path(path: string): S3Place {
  const [, bucket = "", rest = ""] = /^s3:\/\/([^/]*)(.*)$/i.exec(path) ?? [];
  if (bucket === "") throw new UsageError("usage", "no s3://bucket/key path", { file: path });
  const steps: string[] = [];
  for (const step of rest.split("/")) {
    if (step === "..") steps.pop();
    else if (step !== "" && step !== ".") steps.push(step);
  }
  return { bucket, key: steps.join("/") };
}

/** What an error of the client tells. */
export interface S3Failure {
  readonly status: number | undefined;
  readonly name: string;
}

/** The HTTP status and the S3 code of an error of the client. */
export function failureOf(error: unknown): S3Failure {
  const { name = "", $metadata } = error as { name?: string; $metadata?: { httpStatusCode?: number } };
  return { status: $metadata?.httpStatusCode, name };
}

/** An error of the client as one of cairn. */
export function s3Error(cause: unknown, file: string, doing: "read" | "write"): CairnError {
  if (cause instanceof CairnError) return cause;
  const { status, name } = failureOf(cause);
  const { message } = cause as Error;
  const text = `${name}${message === "" || message === name ? "" : `: ${message}`}`;
  if (status === 404) return new NotFoundError("not-found", `the store answered ${text}`, { file, cause });
  if (status === 412 || status === 409) {
    if (doing === "read")
      return new StorageError("file-changed", "the file changed while it was read", { file, cause });
    return new UsageError("exists", "the output exists already", { file, cause });
  }
  return new StorageError(doing === "read" ? "read-failed" : "write-failed", `cannot ${doing}: ${text}`, {
    file,
    cause,
    actual: status,
    hint: hintFor(status, name),
  });
}

function hintFor(status: number | undefined, name: string): string | undefined {
  if (name === "CredentialsProviderError") {
    return "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or choose a profile with AWS_PROFILE.";
  }
  if (status === 403) return "Check the credentials, and that they may do this in the bucket.";
  return status === 301 ? "Set AWS_REGION to the region of the bucket." : undefined;
}
