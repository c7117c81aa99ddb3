import { totalLength } from "../../bytes/byte-sink.js";
import { BaseSource, type ByteSource, type ReadOptions } from "../../bytes/byte-source.js";
import { CorruptionError, PlanError } from "../../errors.js";
import { elementBytes } from "../../tensor/dtype.js";
import type { LazyTensor } from "../../tensor/lazy-tensor.js";
import { elementCount } from "../../tensor/shape.js";
import { readStringLengths, STRING_LENGTH_BYTES } from "../../tensor/strings.js";
import { RelengthedStrings, WEIGHT_STRING_LENGTH_BYTES } from "./string-weights.js";

/**
 * The bytes of a tensor as TF.js stores them; they are asked for when their turn comes.
 * @throws {@link PlanError} (`invalid-plan`) for a string that is too long; its reads {@link CorruptionError} (`tensor-data`)
 */
export async function storedData(key: string, tensor: LazyTensor): Promise<ByteSource> {
  const { dtype, shape } = tensor;
  if (dtype !== "string") return new PlannedData(key, tensor, elementCount(shape) * elementBytes(dtype));
  const lengths = tensor.byteLengths ?? (await readStringLengths(await tensor.data(), elementCount(shape)));
  const size = lengths.reduce((sum, length) => sum + length + STRING_LENGTH_BYTES, 0);
  const tooLong = lengths.find((length) => length > 0xffffffff);
  if (tooLong !== undefined) throw new PlanError("invalid-plan", `a string of "${key}" has ${tooLong} bytes`);
  const widths = { from: STRING_LENGTH_BYTES, to: WEIGHT_STRING_LENGTH_BYTES };
  return new RelengthedStrings(new PlannedData(key, tensor, size), lengths, widths);
}

/** The data of a tensor of known size. */
class PlannedData extends BaseSource {
  readonly name: string;
  readonly size: number;
  private readonly tensor: LazyTensor;
  private source: Promise<ByteSource> | undefined;

  constructor(name: string, tensor: LazyTensor, size: number) {
    super();
    this.name = name;
    this.tensor = tensor;
    this.size = size;
  }

  override async readPieces(
    offset: number,
    length: number,
    scratch: Uint8Array,
    options?: ReadOptions,
  ): Promise<readonly Uint8Array[]> {
    const pieces = await (await this.opened()).readPieces(offset, length, scratch, options);
    this.readTo(offset + totalLength(pieces));
    return pieces;
  }

  protected async fill(offset: number, target: Uint8Array, options?: ReadOptions): Promise<void> {
    target.set(await (await this.opened()).read(offset, target.length, options));
    this.readTo(offset + target.length);
  }

  private opened(): Promise<ByteSource> {
    this.source ??= this.open();
    return this.source;
  }

  /** Nothing is read twice, so what the source holds need not be kept when its end was reached. */
  private readTo(end: number): void {
    if (end === this.size) this.source = undefined;
  }

  private async open(): Promise<ByteSource> {
    const source = await this.tensor.data();
    if (source.size === this.size) return source;
    throw new CorruptionError("tensor-data", `data of "${this.name}"`, {
      file: source.name,
      expected: `${this.size} bytes`,
      actual: `${source.size} bytes`,
    });
  }
}
