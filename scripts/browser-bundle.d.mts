import type { BuildOptions, Metafile } from "esbuild";

export declare const root: string;
export declare const BROTLI_WASM: string;
export declare function bundleForBrowser(options: BuildOptions): Promise<{ metafile: Metafile; nodeImports: string[] }>;
export declare function browserSubpaths(exports: Record<string, string>): [subpath: string, target: string][];
