/** What is the browser's own: files that were chosen or dropped. Files on web servers are in `cairn/http`. */
export { BlobFiles, type ChosenFile } from "./blob-files.js";
export { BlobSource, fileSource } from "./blob-source.js";
export { type BrotliWasm, useBrotliWasm } from "./brotli-wasm.js";
