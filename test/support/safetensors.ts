import { expect } from "vitest";
import type { ByteSource } from "../../src/bytes/byte-source.js";
import { MemoryStore } from "../../src/bytes/memory-store.js";
import { CairnError } from "../../src/errors.js";
import { openSafetensors } from "../../src/formats/safetensors/public.js";
import { LocalFiles } from "../../src/platform/node/local-files.js";
import type { TensorInfo, TensorSource } from "../../src/tensor/tensor-source.js";
import { fixturePath, readExpected } from "./fixtures.js";

interface ExpectedFile {
  sha256: string;
  metadata: Record<string, string> | null;
  tensors: Record<string, { dtype: string; shape: number[]; sha256: string }>;
}
/** What the generator says of the fixtures. */
export const expected = readExpected<{
  files: Record<string, ExpectedFile>;
  verdicts: { header: string; fitting: number[] }[];
  flips: Record<string, string>;
}>("safetensors/expected.json");
/** The files of this machine. */
export const local = new LocalFiles();
/** The path of a fixture. */
export const at = (name: string): string => fixturePath(`safetensors/${name}`);

/** All bytes of a source. */
export async function allBytes(source: ByteSource): Promise<Uint8Array> {
  return source.read(0, source.size);
}

/** Every tensor of a source with its bytes. */
export async function readAll(source: TensorSource): Promise<(TensorInfo & { bytes: Uint8Array })[]> {
  const all: (TensorInfo & { bytes: Uint8Array })[] = [];
  for await (const info of source.tensors()) all.push({ ...info, bytes: await allBytes(await source.data(info.key)) });
  return all;
}

/** A file of a header and so many bytes of data. */
export function fileOf(header: string, dataBytes: number): Uint8Array {
  const text = new TextEncoder().encode(header);
  const bytes = new Uint8Array(8 + text.length + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  return bytes;
}

/** Whether cairn reads a file to the last byte; anything but a typed error with a file fails the test. */
export async function reads(bytes: Uint8Array): Promise<boolean> {
  const files = new MemoryStore([["x.safetensors", bytes]]);
  try {
    const model = await openSafetensors("x.safetensors", { files });
    await readAll(model);
    return true;
  } catch (error) {
    if (!(error instanceof CairnError)) throw error;
    expect(error.file).toBe("x.safetensors");
    return false;
  }
}
