import { create } from "@bufbuild/protobuf";
import { CorruptionError } from "../errors.js";
import {
  ChunkedFieldSchema,
  type ChunkedMessage,
  ChunkedMessageSchema,
} from "../proto/gen/tensorflow/tools/proto_splitter/chunk_pb.js";
import type { ChunkProvider } from "./merge-tree.js";

/**
 * Follows a tree of chunks whose parts stand in chunks of their own. A part is named once and names no further part, as
 * cairn writes them: so a tree is not larger than its file, and ends.
 */
export class TreeParts {
  private readonly chunks: ChunkProvider;
  private readonly parts = new Map<
    bigint,
    { readonly by: ChunkedMessage; readonly message: Promise<ChunkedMessage> }
  >();

  /** Makes one for the trees of one merge. */
  constructor(chunks: ChunkProvider) {
    this.chunks = chunks;
  }

  /** The chunks that were found to be parts of the tree. */
  get indexes(): readonly number[] {
    return [...this.parts.keys()].map(Number);
  }

  /** The ChunkedMessage itself, or the one in the chunk that it points to. @throws CorruptionError (`chunk-index`) */
  async follow(message: ChunkedMessage): Promise<ChunkedMessage> {
    const index = message.cairnTreeChunk;
    if (index === undefined) return message;
    const known = this.parts.get(index);
    if (known?.by === message) return known.message;
    if (known !== undefined) throw this.bad(index, "chunk of a part of the tree, which is named twice");
    if (this.chunks.tree === undefined || index >= BigInt(this.chunks.chunkCount)) {
      throw this.bad(index, "chunk of a part of the tree");
    }
    const part = this.chunks.tree(Number(index)).then((found) => {
      if (namesPart(found)) throw this.bad(index, "chunk of a part of the tree, which names a further part");
      return found;
    });
    this.parts.set(index, { by: message, message: part });
    return part;
  }

  /** The tree with its parts in place. */
  async expand(message: ChunkedMessage): Promise<ChunkedMessage> {
    const { chunkIndex, chunkedFields } = await this.follow(message);
    const fields: ChunkedMessage["chunkedFields"] = [];
    for (const field of chunkedFields) {
      if (field.message === undefined || !namesPart(field.message)) fields.push(field);
      else
        fields.push(
          create(ChunkedFieldSchema, { fieldTag: field.fieldTag, message: await this.expand(field.message) }),
        );
    }
    const index = chunkIndex === undefined ? {} : { chunkIndex };
    return create(ChunkedMessageSchema, { ...index, chunkedFields: fields });
  }

  private bad(index: bigint, what: string): CorruptionError {
    return new CorruptionError("chunk-index", what, { file: this.chunks.name, actual: index });
  }
}

/** Whether a part of the tree is named here or below. */
function namesPart({ cairnTreeChunk, chunkedFields }: ChunkedMessage): boolean {
  if (cairnTreeChunk !== undefined) return true;
  return chunkedFields.some(({ message }) => message !== undefined && namesPart(message));
}
