import { varintLength, writeVarint } from "../../codecs/varint.js";
import { CorruptionError, type ErrorCode, UnsupportedError } from "../../errors.js";
import { MAX_RANK } from "../../limits.js";
import { WireReader } from "./wire-reader.js";

/** A dimension of a slice: where it starts and how long it is; -1 is the whole dimension. */
export interface SliceExtent {
  readonly start: number;
  readonly length: number;
}

/** What the index says of a tensor, or of a slice of one. Source: tensorflow/core/protobuf/tensor_bundle.proto. */
export interface BundleEntry {
  /** A number of TensorFlow's DataType. */
  readonly dtype: number;
  readonly shape: readonly number[];
  /** Which data file holds the bytes. */
  readonly shardId: number;
  /** Where in it, in bytes. */
  readonly offset: number;
  /** How many bytes are stored. */
  readonly size: number;
  /** Masked. */
  readonly crc32c: number;
  /** Of a tensor that is stored in slices: which they are. The slices have entries of their own, then. */
  readonly slices: readonly (readonly SliceExtent[])[];
}

/** The first entry of an index. */
export interface BundleHeader {
  readonly shardCount: number;
  readonly isBigEndian: boolean;
  readonly producer: number;
  readonly minConsumer: number;
}

/** Where an entry stands, for errors. */
export interface EntryPlace {
  readonly file: string;
  readonly offset: number;
  /** The key, for people. */
  readonly key: string;
}

/** The version of this reader. Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc, kTensorBundleVersion. */
const BUNDLE_VERSION = 1;

// Field numbers and wire types, as tags. Source: tensor_bundle.proto, versions.proto, tensor_shape.proto, tensor_slice.proto.
const VARINT = 0;
const BYTES = 2;
const FIXED32 = 5;
const tag = (field: number, type: number): number => field * 8 + type;

/**
 * Reads a BundleHeaderProto and holds it against what this reader knows.
 * @throws CorruptionError (`bundle-header`), UnsupportedError (`unsupported-version`)
 */
export function decodeHeader(bytes: Uint8Array, place: EntryPlace): BundleHeader {
  const reader = new WireReader(bytes, place, "bundle-header");
  let shardCount = 0;
  let isBigEndian = false;
  let version = { producer: 0, minConsumer: 0, badConsumers: [] as number[] };
  while (reader.left > 0) {
    const next = reader.varint();
    if (next === tag(1, VARINT)) shardCount = reader.varint();
    else if (next === tag(2, VARINT)) isBigEndian = reader.varint() === 1;
    else if (next === tag(3, BYTES)) version = readVersion(reader, reader.message());
    else reader.skip(next);
  }
  const { producer, minConsumer, badConsumers } = version;
  if (shardCount < 0 || shardCount > 2 ** 31 - 1) {
    throw new CorruptionError("bundle-header", "number of shards", { ...place, actual: shardCount });
  }
  if (minConsumer > BUNDLE_VERSION || badConsumers.includes(BUNDLE_VERSION)) {
    throw new UnsupportedError("unsupported-version", "the checkpoint needs another reader than version 1", {
      file: place.file,
      offset: place.offset,
      expected: `at most ${BUNDLE_VERSION}, and not forbidden`,
      actual: minConsumer > BUNDLE_VERSION ? minConsumer : `${BUNDLE_VERSION} forbidden`,
    });
  }
  return { shardCount, isBigEndian, producer, minConsumer };
}

function readVersion(
  reader: WireReader,
  end: number,
): { producer: number; minConsumer: number; badConsumers: number[] } {
  const version = { producer: 0, minConsumer: 0, badConsumers: [] as number[] };
  while (reader.position < end) {
    const next = reader.varint();
    if (next === tag(1, VARINT)) version.producer = reader.varint();
    else if (next === tag(2, VARINT)) version.minConsumer = reader.varint();
    else if (next === tag(3, VARINT)) version.badConsumers.push(reader.varint());
    else if (next === tag(3, BYTES)) {
      for (const packedEnd = reader.message(); reader.position < packedEnd; )
        version.badConsumers.push(reader.varint());
    } else reader.skip(next);
  }
  return version;
}

/**
 * Reads a BundleEntryProto. Written by hand: there may be a million of them.
 * @throws CorruptionError (`bundle-entry`) naming file, key and offset
 */
export function decodeEntry(bytes: Uint8Array, place: EntryPlace): BundleEntry {
  const reader = new WireReader(bytes, place, "bundle-entry");
  const slices: SliceExtent[][] = [];
  let [dtype, shardId, offset, size, crc32c] = [0, 0, 0, 0, 0];
  let shape: number[] = [];
  while (reader.left > 0) {
    const next = reader.varint();
    if (next === tag(1, VARINT)) dtype = reader.varint();
    else if (next === tag(2, BYTES)) shape = readShape(reader, reader.message(), place);
    else if (next === tag(3, VARINT)) shardId = reader.varint();
    else if (next === tag(4, VARINT)) offset = reader.varint();
    else if (next === tag(5, VARINT)) size = reader.varint();
    else if (next === tag(6, FIXED32)) crc32c = reader.fixed32();
    else if (next === tag(7, BYTES)) slices.push(readSlice(reader, reader.message()));
    else reader.skip(next);
  }
  if (shardId < 0 || offset < 0 || size < 0) {
    const actual = `shard ${shardId}, offset ${offset}, size ${size}`;
    throw entryError("bundle-entry", "a place that cannot be", place, undefined, actual);
  }
  return { dtype, shape, shardId, offset, size, crc32c, slices };
}

function readShape(reader: WireReader, end: number, place: EntryPlace): number[] {
  const shape: number[] = [];
  while (reader.position < end) {
    const next = reader.varint();
    if (next === tag(2, BYTES)) {
      let size = 0;
      for (const dimEnd = reader.message(); reader.position < dimEnd; ) {
        const field = reader.varint();
        if (field === tag(1, VARINT)) size = reader.varint();
        else reader.skip(field);
      }
      if (size < 0) throw entryError("bundle-entry", "a dimension", place, "0 or more", size);
      shape.push(size);
    } else if (next === tag(3, VARINT)) {
      if (reader.varint() !== 0) throw entryError("bundle-entry", "the rank is unknown", place);
    } else reader.skip(next);
    if (shape.length > MAX_RANK) throw entryError("bundle-entry", "rank", place, `at most ${MAX_RANK}`);
  }
  return shape;
}

function readSlice(reader: WireReader, end: number): SliceExtent[] {
  const extents: SliceExtent[] = [];
  while (reader.position < end) {
    const next = reader.varint();
    if (next !== tag(1, BYTES)) {
      reader.skip(next);
      continue;
    }
    let start = 0;
    let length = -1; // an extent without a length is the whole dimension
    for (const extentEnd = reader.message(); reader.position < extentEnd; ) {
      const field = reader.varint();
      if (field === tag(1, VARINT)) start = reader.varint();
      else if (field === tag(2, VARINT)) length = reader.varint();
      else reader.skip(field);
    }
    extents.push({ start, length });
  }
  return extents;
}

/** An error about an entry, which names file, key and offset. */
export function entryError(
  code: ErrorCode,
  what: string,
  { file, offset, key }: EntryPlace,
  expected?: string | number,
  actual?: string | number,
): CorruptionError {
  return new CorruptionError(code, `entry of "${key}": ${what}`, { file, offset, expected, actual });
}

/** A BundleHeaderProto as TensorFlow writes it. */
export function encodeHeader(shardCount: number, isBigEndian = false): Uint8Array {
  const writer = new EntryWriter();
  writer.field(1, shardCount);
  writer.field(2, isBigEndian ? 1 : 0);
  writer.message(3, () => writer.field(1, BUNDLE_VERSION));
  return writer.take();
}

/** Encodes entries, one after another, in memory that is used again. */
export class EntryWriter {
  private bytes = new Uint8Array(256);
  private length = 0;

  /** A BundleEntryProto, as protobuf's own writer makes it: fields in order, zeros left out. Good until the next one. */
  encode(entry: BundleEntry): Uint8Array {
    const { dtype, shape, shardId, offset, size, crc32c, slices } = entry;
    this.field(1, dtype);
    this.message(2, () => {
      for (const dim of shape) this.message(2, () => this.field(1, dim));
    });
    this.field(3, shardId);
    this.field(4, offset);
    this.field(5, size);
    if (crc32c !== 0) this.fixed32(6, crc32c);
    for (const slice of slices) {
      this.message(7, () => {
        for (const { start, length } of slice) {
          this.message(1, () => {
            this.field(1, start);
            if (length >= 0) this.presentField(2, length);
          });
        }
      });
    }
    return this.take();
  }

  /** A varint field, left out when it is 0. */
  field(number: number, value: number): void {
    if (value !== 0) this.presentField(number, value);
  }

  /** A message, whose fields `write` adds. */
  message(number: number, write: () => void): void {
    this.reserve(2);
    this.bytes[this.length++] = tag(number, BYTES);
    const start = ++this.length;
    write();
    const size = this.length - start;
    const extra = varintLength(size) - 1;
    if (extra > 0) {
      this.reserve(extra);
      this.bytes.copyWithin(start + extra, start, this.length);
      this.length += extra;
    }
    writeVarint(this.bytes, start - 1, size);
  }

  /** What was written, a view that is good until something else is; the writer is empty then. */
  take(): Uint8Array {
    const taken = this.bytes.subarray(0, this.length);
    this.length = 0;
    return taken;
  }

  private presentField(number: number, value: number): void {
    this.reserve(9);
    this.bytes[this.length++] = tag(number, VARINT);
    this.length = writeVarint(this.bytes, this.length, value);
  }

  private fixed32(number: number, value: number): void {
    this.reserve(5);
    this.bytes[this.length++] = tag(number, FIXED32);
    for (let i = 0; i < 4; i++) this.bytes[this.length++] = (value >>> (8 * i)) & 0xff;
  }

  private reserve(count: number): void {
    if (this.length + count <= this.bytes.length) return;
    const larger = new Uint8Array(Math.max(this.length + count, this.bytes.length * 2));
    larger.set(this.bytes.subarray(0, this.length));
    this.bytes = larger;
  }
}
