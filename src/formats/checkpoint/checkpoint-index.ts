import type { ByteSource } from "../../bytes/byte-source.js";
import { CairnError, CorruptionError } from "../../errors.js";
import { type TableEntry, TableReader } from "../../table/table-reader.js";
import { type BundleEntry, type BundleHeader, decodeEntry, decodeHeader, type EntryPlace } from "./bundle-proto.js";
import { HEADER_KEY, type RawKey, textOfKey } from "./checkpoint-key.js";
import { decodeSliceKey, encodeSliceKey } from "./ordered-code.js";

/** An entry of an index, with where it stands. */
export interface PlacedEntry {
  readonly rawKey: RawKey;
  readonly entry: BundleEntry;
  readonly place: EntryPlace;
}

/** All entries of an index: the tensors in key order, and the slices of tensors by their own keys. */
export interface LoadedIndex {
  readonly tensors: readonly PlacedEntry[];
  readonly slices: ReadonlyMap<RawKey, PlacedEntry>;
}

/** Of an index up to this size, 4 MiB, decoded entries are kept: some 100,000 tensors, in at most 50 MB. */
const KEPT_INDEX_BYTES = 4 * 1024 * 1024;

/** The `.index` file of a checkpoint. Reads only the blocks that are asked for. */
export class CheckpointIndex {
  readonly name: string;
  readonly table: TableReader;
  readonly header: BundleHeader;
  /** Of the file. */
  readonly byteLength: number;

  /** The tensors, once all have been listed, so that a list and what is read of it afterwards decode each entry once. */
  private kept: ReadonlyMap<RawKey, PlacedEntry> | undefined;

  private constructor(table: TableReader, header: BundleHeader, byteLength: number) {
    this.name = table.name;
    this.byteLength = byteLength;
    this.table = table;
    this.header = header;
  }

  /**
   * Opens the index and reads its header.
   * @throws CorruptionError (`table-footer`, `table-block`, `table-entry`, `bundle-header`), TruncatedError (`truncated`),
   *   UnsupportedError (`unsupported-version`)
   */
  static async open(source: ByteSource): Promise<CheckpointIndex> {
    const table = await TableReader.open(source);
    const found = await table.get(HEADER_KEY);
    if (found === undefined) {
      throw new CorruptionError("bundle-header", "the index has no header", { file: source.name, offset: 0 });
    }
    const place = { file: source.name, offset: found.offset, key: "(header)" };
    return new CheckpointIndex(table, decodeHeader(found.value, place), source.size);
  }

  /** The entry of a key, or undefined. @throws CorruptionError (`table-block`, `table-entry`, `bundle-entry`) */
  async get(rawKey: RawKey): Promise<PlacedEntry | undefined> {
    if (rawKey === HEADER_KEY) return undefined;
    const kept = this.kept?.get(rawKey);
    if (kept !== undefined) return kept;
    const found = await this.table.get(rawKey);
    return found === undefined ? undefined : this.decode(found);
  }

  /**
   * All tensors in key order, without the entries of slices. What cannot be read goes to `onDamage`, which throws by
   * default, and the rest follows.
   */
  async *tensors(onDamage: (error: CairnError, rawKey?: RawKey) => void = rethrow): AsyncGenerator<PlacedEntry> {
    if (this.kept !== undefined) {
      yield* this.kept.values();
      return;
    }
    const listed = new Map<RawKey, PlacedEntry>();
    let isKept = this.byteLength <= KEPT_INDEX_BYTES;
    const noteDamage = (error: unknown, rawKey?: RawKey): void => {
      isKept = false;
      passOn(error, onDamage, rawKey);
    };
    const owners = new SliceOwners(this);
    for (let block = 0; block < this.table.blocks.length; block++) {
      let entries: TableEntry[];
      try {
        entries = await this.table.blockEntries(block);
      } catch (error) {
        noteDamage(error);
        continue;
      }
      for (const found of entries) {
        if (found.key === HEADER_KEY) continue;
        try {
          if (found.key.charCodeAt(0) === 0 && (await owners.isSlice(found.key))) continue;
          const placed = this.decode(found);
          if (isKept) listed.set(placed.rawKey, placed);
          yield placed;
        } catch (error) {
          noteDamage(error, found.key);
        }
      }
    }
    if (isKept) this.kept = listed;
  }

  /** Reads all entries at once. */
  async load(onDamage: (error: CairnError, rawKey?: RawKey) => void = rethrow): Promise<LoadedIndex> {
    const tensors: PlacedEntry[] = [];
    const hidden = new Map<RawKey, PlacedEntry>();
    for (let block = 0; block < this.table.blocks.length; block++) {
      let entries: TableEntry[] = [];
      try {
        entries = await this.table.blockEntries(block);
      } catch (error) {
        passOn(error, onDamage);
      }
      for (const found of entries) {
        if (found.key === HEADER_KEY) continue;
        try {
          const placed = this.decode(found);
          if (found.key.charCodeAt(0) === 0) hidden.set(found.key, placed);
          else tensors.push(placed);
        } catch (error) {
          passOn(error, onDamage, found.key);
        }
      }
    }
    return separate(tensors, hidden);
  }

  private decode({ key, value, offset }: TableEntry): PlacedEntry {
    const place = { file: this.name, offset, key: textOfKey(key) };
    return { rawKey: key, entry: decodeEntry(value, place), place };
  }
}

function rethrow(error: CairnError): never {
  throw error;
}

function passOn(error: unknown, onDamage: (error: CairnError, rawKey?: RawKey) => void, rawKey?: RawKey): void {
  if (!(error instanceof CairnError)) throw error;
  onDamage(error, rawKey);
}

/** Tells slices from tensors whose names begin with NUL: a slice is what some tensor names. */
function separate(tensors: PlacedEntry[], hidden: Map<RawKey, PlacedEntry>): LoadedIndex {
  const slices = new Map<RawKey, PlacedEntry>();
  for (const { rawKey, entry } of [...hidden.values(), ...tensors]) {
    for (const extents of entry.slices) {
      const key = encodeSliceKey(rawKey, extents);
      const slice = hidden.get(key);
      if (slice !== undefined) slices.set(key, slice);
    }
  }
  const named = [...hidden.values()].filter(({ rawKey }) => !slices.has(rawKey));
  return { tensors: [...named, ...tensors], slices };
}

/** Answers whether keys are those of slices. The slices of a tensor stand together, so its entry is kept. */
class SliceOwners {
  private readonly index: CheckpointIndex;
  private name: RawKey | undefined;
  private keys = new Set<RawKey>();

  constructor(index: CheckpointIndex) {
    this.index = index;
  }

  async isSlice(rawKey: RawKey): Promise<boolean> {
    const decoded = decodeSliceKey(rawKey);
    if (decoded === undefined) return false;
    if (decoded.name !== this.name) {
      this.keys = new Set();
      this.name = decoded.name;
      const owner = await this.index.get(decoded.name);
      for (const extents of owner?.entry.slices ?? []) this.keys.add(encodeSliceKey(decoded.name, extents));
    }
    return this.keys.has(rawKey);
  }
}
