/** Files on web servers, for Node and browsers. */
export type { HttpClientOptions } from "./client.js";
export { HttpFiles, type HttpFilesOptions } from "./http-files.js";
export type { RetryOptions } from "./retry.js";
