/** What is Node's own: the files of this machine. */
import { LocalFiles } from "./local-files.js";

export { LocalFiles };

/** The files of this machine. */
export const localFiles: LocalFiles = new LocalFiles();
