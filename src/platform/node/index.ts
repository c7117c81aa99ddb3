/** What is Node's own: the files of this machine, and S3 stores. */
import { LocalFiles } from "./local-files.js";

export { S3Files, type S3FilesOptions } from "./s3-files.js";
export { LocalFiles };

/** The files of this machine. */
export const localFiles: LocalFiles = new LocalFiles();
