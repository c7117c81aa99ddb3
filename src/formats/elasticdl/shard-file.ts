import type { ByteSource, OpenedSource } from "../../bytes/byte-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { baseName } from "../../bytes/path.js";
import { Window } from "../../bytes/window.js";
import { crc32c, prepareCrc32c } from "../../codecs/crc32c.js";
import { CorruptionError, TruncatedError } from "../../errors.js";
import type { FieldTable } from "../../proto/field-table.js";
import { ShardModelSchema } from "../../proto/gen/cairn/elasticdl_checkpoint_pb.js";
import { MessageView } from "../../proto/message-view.js";
import { CheckedSource } from "./checked-source.js";
import { offsetInFile } from "./message-parts.js";
import { readModel } from "./model-reader.js";
import { parseShardName, type ShardName } from "./names.js";
import { isOlderModel, readOlderModel } from "./older-model.js";
import type { ShardCatalog, StoredEntry } from "./shard-catalog.js";
import { type CheckedRange, crcOfRange, findChecksums, mismatch, type ShardChecksums } from "./shard-checksums.js";

/** One shard file of a training checkpoint, open. Elements are read when they are asked for. */
export class ShardFile {
  readonly path: string;
  readonly catalog: ShardCatalog;
  /** Whose share of how many it is, by its name; undefined when the name tells nothing. */
  readonly name: ShardName | undefined;
  private readonly source: OpenedSource;
  private readonly table: FieldTable;
  private readonly checksums: ShardChecksums | undefined;
  /** Fields whose elements were given out, to be checked by {@link ShardFile.verify}. */
  private readonly given = new Map<number, CheckedSource | undefined>();

  private constructor(source: OpenedSource, parts: ShardParts) {
    this.path = source.name;
    this.name = parseShardName(baseName(source.name));
    this.source = source;
    this.catalog = parts.catalog;
    this.table = parts.table;
    this.checksums = parts.checksums;
  }

  /**
   * Opens a shard and checks all of it but the elements: with checksums every bit, else what the message itself tells.
   * @throws NotFoundError (`not-found`), {@link TruncatedError} (`truncated`), {@link CorruptionError} (`shard-checksum`,
   * `invalid-wire`, `tensor-data`, `ambiguous-message`), UnsupportedError (`unsupported-dtype`)
   */
  static async open(files: FileStore, path: string): Promise<ShardFile> {
    const source = await files.open(path);
    try {
      return new ShardFile(source, await readShard(source));
    } catch (error) {
      await source.close();
      throw error;
    }
  }

  /** Bytes of the file. */
  get byteLength(): number {
    return this.source.size;
  }

  /** Whether its bits are covered by checksums; ElasticDL writes none. */
  get hasChecksums(): boolean {
    return this.checksums !== undefined;
  }

  /** The elements of an entry. Read in order and to the end they are checked on the way by {@link ShardFile.verify}. */
  elements(entry: StoredEntry): ByteSource {
    const [field, ...more] = entry.fields;
    if (field === undefined || more.length > 0 || this.checksums === undefined) return entry.content;
    const [start, end] = [this.table.start(field), this.table.end(field)];
    // What is empty lies nowhere: then all of the field is before it.
    const offset = entry.content.size === 0 ? end : offsetInFile(entry.content);
    if (!(offset >= start && offset + entry.content.size <= end)) {
      // Put together from several places; it is checked by itself.
      this.given.set(field, undefined);
      return entry.content;
    }
    const head = { start, end: offset };
    const tail = { start: offset + entry.content.size, end };
    const checked = new CheckedSource({ file: this.source, content: entry.content, head, tail });
    this.given.set(field, checked);
    return checked;
  }

  /** The ids of an entry as bytes; they are checked with its elements. */
  idBytes(entry: StoredEntry & { readonly ids: ByteSource }): ByteSource {
    const [field] = entry.fields;
    if (field !== undefined && !this.given.has(field)) this.elements(entry);
    return entry.ids;
  }

  /**
   * Checks what was given out since the last call against the checksums.
   * @throws {@link CorruptionError} (`shard-checksum`)
   */
  async verify(): Promise<void> {
    for (const [field, checked] of this.given) {
      const actual = (await checked?.checksum()) ?? (await this.crcOfField(field));
      this.given.delete(field);
      this.compare(field, actual);
    }
  }

  /** Checks every bit against the checksums; says nothing where there are none. @throws {@link CorruptionError} (`shard-checksum`) */
  async verifyAll(onBytes?: (count: number) => void, signal?: AbortSignal): Promise<void> {
    for (const field of this.checksums?.fields.keys() ?? []) {
      signal?.throwIfAborted();
      this.compare(field, await this.crcOfField(field));
      onBytes?.(this.table.end(field) - this.table.start(field));
    }
  }

  /** Checks the fields of one entry. @throws {@link CorruptionError} (`shard-checksum`) */
  async verifyEntry(entry: StoredEntry): Promise<void> {
    if (this.checksums === undefined) return;
    for (const field of entry.fields) this.compare(field, await this.crcOfField(field));
  }

  /** Where the field of an entry begins in the file. */
  offsetOf(entry: StoredEntry): number {
    return this.table.start(entry.fields[0] ?? 0);
  }

  /** Gives the file back. */
  close(): Promise<void> {
    return this.source.close();
  }

  private crcOfField(field: number): Promise<number> {
    return crcOfRange(this.source, { start: this.table.start(field), end: this.table.end(field) });
  }

  private compare(field: number, actual: number): void {
    const expected = this.checksums?.fields[field];
    if (expected === actual) return;
    throw mismatch(this.source, this.table.start(field), this.describe(field), expected, actual);
  }

  private describe(field: number): string {
    const { dense, tables, slots } = this.catalog;
    for (const [name, entry] of dense) if (entry.fields.includes(field)) return `checksum of "${name}"`;
    for (const [name, entry] of tables)
      if (entry.fields.includes(field)) return `checksum of embedding table "${name}"`;
    const slot = slots.find(({ fields }) => fields.includes(field));
    return slot === undefined ? "checksum" : `checksum of slot "${slot.name}" of "${slot.owner}"`;
  }
}

interface ShardParts {
  readonly catalog: ShardCatalog;
  readonly table: FieldTable;
  readonly checksums: ShardChecksums | undefined;
}

async function readShard(source: ByteSource): Promise<ShardParts> {
  if (source.size === 0) {
    const what = "the shard is empty; one of ElasticDL holds its version at least";
    throw new TruncatedError("truncated", what, { file: source.name, offset: 0 });
  }
  await prepareCrc32c(source.size);
  const checksums = await findChecksums(source);
  const model = MessageView.of(ShardModelSchema, source);
  const list = await model.open();
  const [segment] = list.segments;
  if (segment === undefined) throw new CorruptionError("invalid-wire", "no field", { file: source.name });
  const { table } = segment;
  // A name in .ckpt is that of the released form.
  const mayBeOlder = checksums === undefined && source.name.endsWith(".chkpt");
  const isOlder = mayBeOlder && (await isOlderModel(model));
  const catalog = isOlder ? await readOlderModel(source) : await readModel(model, source);
  if (checksums !== undefined) await checkHeads(source, table, catalog, checksums);
  return { catalog, table, checksums };
}

/** Checks all bytes but elements and ids, and that there are as many fields as there were. */
async function checkHeads(
  source: ByteSource,
  table: FieldTable,
  catalog: ShardCatalog,
  checksums: ShardChecksums,
): Promise<void> {
  const count = table.count - 1;
  if (count !== checksums.fields.length || table.start(count) !== checksums.byteLength) {
    const file = { file: source.name, expected: checksums.fields.length, actual: count };
    throw new CorruptionError("shard-checksum", "number of fields that have a checksum", file);
  }
  const window = new Window(source);
  let crc = 0;
  let at = 0;
  for (const { start, end } of [
    ...elementRanges(catalog),
    { start: checksums.byteLength, end: checksums.byteLength },
  ]) {
    while (at < start) {
      if (!window.holds(at, 1)) await window.move(at, Math.min(start - at, HEADS_READ_BYTES));
      const stop = Math.min(start, window.end);
      crc = crc32c(window.bytes.subarray(at - window.start, stop - window.start), crc);
      at = stop;
    }
    at = Math.max(at, end);
  }
  window.release();
  if (crc !== checksums.heads) throw mismatch(source, 0, "checksum of names, shapes and sizes", checksums.heads, crc);
}

/** Bytes of heads that are read at once where many lie together, 64 KiB. */
const HEADS_READ_BYTES = 64 * 1024;

/** Where elements and ids lie, in order. */
function elementRanges({ dense, tables, slots }: ShardCatalog): CheckedRange[] {
  const sources: ByteSource[] = [];
  for (const entry of [...dense.values(), ...slots, ...tables.values()]) sources.push(entry.content);
  for (const { ids } of tables.values()) sources.push(ids);
  return sources
    .filter(({ size }) => size > 0)
    .map((part) => ({ start: offsetInFile(part), end: offsetInFile(part) + part.size }))
    .filter(({ start }) => !Number.isNaN(start))
    .sort((a, b) => a.start - b.start);
}
