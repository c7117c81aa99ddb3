import type { BrotliDecStream } from "brotli-dec-wasm/web";

/** Where the WebAssembly of Brotli is: its bytes, or the address of `brotli_dec_wasm_bg.wasm`. */
export type BrotliWasm = Uint8Array | ArrayBuffer | URL | string;

let wasm: BrotliWasm | undefined;
let loading: Promise<new () => BrotliDecStream> | undefined;

/**
 * Says where the WebAssembly of Brotli is. Not needed where the bundler copies files that stand in `new URL(…)`, as
 * Vite, webpack and Parcel do. It has effect until the first Brotli buffer is read.
 */
export function useBrotliWasm(source: BrotliWasm): void {
  wasm = source;
}

/** Loads the Brotli decoder; what failed to load is tried again the next time. */
export async function loadBrotliDecoder(): Promise<new () => BrotliDecStream> {
  loading ??= load();
  try {
    return await loading;
  } catch (error) {
    loading = undefined;
    throw error;
  }
}

async function load(): Promise<new () => BrotliDecStream> {
  const { default: init, BrotliDecStream } = await import("brotli-dec-wasm/web");
  await init(wasm === undefined ? undefined : { module_or_path: wasm });
  return BrotliDecStream;
}
