/** Bytes of any size, wherever they are: sources, sinks and stores. */
export { ByteCursor } from "./byte-cursor.js";
export { type ByteSink, concatBytes, MemorySink } from "./byte-sink.js";
export { BaseSource, type ByteSource, type OpenedSource, type ReadOptions, sliceSource } from "./byte-source.js";
export { BlockCache, type BlockCacheOptions, CachedSource } from "./cached-source.js";
export { type CopyOptions, copySource, readInOrder, streamSource } from "./copy-source.js";
export type { CreateOptions, FileInfo, FileStore, ScratchFactory, ScratchFile } from "./file-store.js";
export { joinSources } from "./joined-source.js";
export { MemorySource } from "./memory-source.js";
export { MemoryStore, memoryScratch } from "./memory-store.js";
