/** Files on web servers, for Node and browsers. */

export type { RetryOptions } from "../../bytes/retry.js";
export type { HttpClientOptions } from "./client.js";
export { HttpFiles, type HttpFilesOptions } from "./http-files.js";
