import { UsageError } from "../errors.js";
import { keyToId, partitionIds } from "../formats/elasticdl/partition.js";
import { decodeDenseParameters, decodeGradientsAnswer, decodeTensor } from "./decode-messages.js";
import { encodeDenseRequest, encodeGradients, encodeModel, encodeVectorsRequest } from "./encode-messages.js";
import { floatsOf } from "./float-view.js";
import { type CallOptions, GrpcChannel } from "./grpc-channel.js";
import type { AnswerEncoder } from "./grpc-server.js";
import { type Id, idWords, toIds } from "./ids.js";
import {
  emptyModel,
  type GradientsAnswerMessage,
  type ModelMessage,
  type SlicesMessage,
  type TableInfoMessage,
  type TensorMessage,
} from "./messages.js";
import { PSERVER_PATHS } from "./pserver-methods.js";

/** What a pull of the dense variables gives. */
export interface PulledParameters {
  /** Whether all servers have their variables; when not, a worker pushes its model. */
  readonly isInitialized: boolean;
  /** The version of each server. */
  readonly modelVersions: readonly number[];
  /** The variables of servers that are newer than what was had. */
  readonly dense: ReadonlyMap<string, TensorMessage>;
}

/** Rows of an embedding table in the order of their ids. */
export interface PulledRows {
  readonly dim: number;
  /** `ids.length * dim` numbers. */
  readonly values: Float32Array;
}

/** Gradients of one step. */
export interface GradientsToPush {
  readonly dense?: ReadonlyMap<string, TensorMessage> | undefined;
  /** Of rows of embedding tables. */
  readonly rows?: ReadonlyMap<string, SlicesMessage> | undefined;
  /** Of rows of dense variables; these stand whole on one server. */
  readonly denseRows?: ReadonlyMap<string, SlicesMessage> | undefined;
  /** The version of each server that the gradients were made with. */
  readonly modelVersions: readonly number[];
  /** 0, as unless said, leaves it to the servers. */
  readonly learningRate?: number | undefined;
}

/** A worker's way to all parameter servers of a job: each variable and row goes to the server that it belongs to. */
export class PserverClient {
  private readonly channels: readonly GrpcChannel[];
  private readonly options: CallOptions;

  /** A client of the servers at these addresses, in the order of their ids. @throws {@link UsageError} (`usage`) when there is none */
  constructor(addresses: readonly string[], options: CallOptions = {}) {
    if (addresses.length === 0) throw new UsageError("usage", "no parameter servers are named");
    this.channels = addresses.map((address) => new GrpcChannel(address));
    this.options = options;
  }

  /** How many servers there are. */
  get psNum(): number {
    return this.channels.length;
  }

  /** Gives each server its share of a model; the first worker's is taken. @throws RpcError (`rpc-failed`) */
  async pushModel(model: ModelMessage): Promise<void> {
    const shares = this.split(model.denseParameters, model.embeddingTables);
    await this.all((channel, psId) => {
      const share = { ...model, ...shares[psId] };
      return this.send(channel, PSERVER_PATHS.pushModel, (allocate) => encodeModel(share, allocate));
    });
  }

  /** Tells all servers of the embedding tables. @throws RpcError (`rpc-failed`) */
  async pushEmbeddingTableInfos(tableInfos: TableInfoMessage[]): Promise<void> {
    const model = { ...emptyModel(), tableInfos };
    await this.all((channel) => {
      return this.send(channel, PSERVER_PATHS.pushEmbeddingTableInfos, (allocate) => encodeModel(model, allocate));
    });
  }

  /**
   * The dense variables of the servers that have newer ones than these versions; -1, as unless said, is older than any.
   * `reuse` are variables whose memory may be used again, those of the last pull.
   * @throws RpcError (`rpc-failed`)
   */
  async pullDenseParameters(
    modelVersions: readonly number[] = [],
    reuse: ReadonlyMap<string, TensorMessage> = new Map(),
  ): Promise<PulledParameters> {
    const answers = await this.all((channel, psId) => {
      const request = encodeDenseRequest(modelVersions[psId] ?? -1);
      return this.call(channel, PSERVER_PATHS.pullDenseParameters, fill(request), (answer) => {
        const message = decodeDenseParameters(answer);
        for (const [name, tensor] of message.denseParameters) {
          const known = reuse.get(name)?.content;
          if (known?.length === tensor.content.length) known.set(tensor.content);
          tensor.content = known?.length === tensor.content.length ? known : tensor.content.slice();
        }
        return message;
      });
    });
    return {
      isInitialized: answers.every(({ initialized }) => initialized),
      modelVersions: answers.map(({ modelVersion }) => modelVersion),
      dense: new Map(answers.flatMap(({ denseParameters }) => [...denseParameters])),
    };
  }

  /** Rows of an embedding table, in the order of the ids; an id may come twice. @throws RpcError (`rpc-failed`) */
  async pullEmbeddingVectors(name: string, ids: readonly Id[] | BigInt64Array): Promise<PulledRows> {
    const all = toIds(ids);
    const shares = this.shareIds(all);
    let dim = 0;
    let values = new Float32Array(0);
    await this.all(async (channel, psId) => {
      const { ids: own, places } = shares[psId] as IdShare;
      if (own.length === 0) return;
      const request = encodeVectorsRequest({ name, ids: own });
      await this.call(channel, PSERVER_PATHS.pullEmbeddingVectors, fill(request), (answer) => {
        const { shape, content } = decodeTensor(answer);
        const width = shape[1] ?? 0;
        if (shape[0] !== own.length || content.length !== 4 * own.length * width || (dim !== 0 && dim !== width)) {
          throw new UsageError("gradient-mismatch", `rows of "${name}" from ${channel.address}`, {
            expected: `[${own.length}, ${dim === 0 ? "…" : dim}]`,
            actual: `[${shape.join(", ")}]`,
          });
        }
        if (values.length === 0) values = new Float32Array(all.length * width);
        dim = width;
        const rows = floatsOf(content, (count) => new Float32Array(count));
        for (let i = 0; i < places.length; i++) {
          const to = (places[i] as number) * width;
          for (let k = 0; k < width; k++) values[to + k] = rows[i * width + k] as number;
        }
      });
    });
    return { dim, values };
  }

  /**
   * Pushes the gradients of a step to all servers: also to one that has no share of them, so that their versions advance
   * together.
   * @throws RpcError (`rpc-failed`)
   */
  async pushGradients(gradients: GradientsToPush): Promise<readonly GradientsAnswerMessage[]> {
    const { dense = new Map(), rows = new Map(), denseRows = new Map(), modelVersions, learningRate = 0 } = gradients;
    const shares = this.split(dense, rows);
    for (const [name, slices] of denseRows) shares[keyToId(name, this.psNum)]?.embeddingTables.set(name, slices);
    return this.all((channel, psId) => {
      const modelVersion = modelVersions[psId] ?? 0;
      const message = { gradients: { ...emptyModel(), ...shares[psId], modelVersion }, learningRate };
      const encode: AnswerEncoder = (allocate) => encodeGradients(message, allocate);
      return this.call(channel, PSERVER_PATHS.pushGradients, encode, decodeGradientsAnswer);
    });
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    await Promise.all(this.channels.map((channel) => channel.close()));
  }

  /** Ends all connections at once, with the calls that are under way. */
  abort(): void {
    for (const channel of this.channels) channel.abort();
  }

  private all<Result>(call: (channel: GrpcChannel, psId: number) => Promise<Result>): Promise<Result[]> {
    return Promise.all(this.channels.map(call));
  }

  private call<Answer>(
    channel: GrpcChannel,
    path: string,
    encode: AnswerEncoder,
    decode: (answer: Uint8Array) => Answer,
  ): Promise<Answer> {
    return channel.call(path, encode, decode, this.options);
  }

  private send(channel: GrpcChannel, path: string, encode: AnswerEncoder): Promise<void> {
    return this.call(channel, path, encode, () => {});
  }

  /** Each server's share of variables and rows. */
  private split(
    dense: ReadonlyMap<string, TensorMessage>,
    rows: ReadonlyMap<string, SlicesMessage>,
  ): Pick<ModelMessage, "denseParameters" | "embeddingTables">[] {
    const shares = this.channels.map(() => ({
      denseParameters: new Map<string, TensorMessage>(),
      embeddingTables: new Map<string, SlicesMessage>(),
    }));
    for (const [name, tensor] of dense) shares[keyToId(name, this.psNum)]?.denseParameters.set(name, tensor);
    for (const [name, slices] of rows) {
      this.shareIds(slices.ids).forEach((share, psId) => {
        if (share.ids.length > 0) shares[psId]?.embeddingTables.set(name, takeRows(slices, share));
      });
    }
    return shares;
  }

  private shareIds(ids: BigInt64Array): IdShare[] {
    if (this.psNum === 1) return [{ ids, places: Int32Array.from(ids.keys()) }];
    const owners = partitionIds(ids, this.psNum);
    const counts = new Int32Array(this.psNum);
    for (const owner of owners) counts[owner] = (counts[owner] as number) + 1;
    const shares = Array.from(counts, (count) => ({ ids: new BigInt64Array(count), places: new Int32Array(count) }));
    const words = shares.map((share) => idWords(share.ids));
    const source = idWords(ids);
    counts.fill(0);
    for (let place = 0; place < owners.length; place++) {
      const owner = owners[place] as number;
      const at = counts[owner] as number;
      counts[owner] = at + 1;
      const target = words[owner] as Int32Array;
      target[2 * at] = source[2 * place] as number;
      target[2 * at + 1] = source[2 * place + 1] as number;
      (shares[owner] as { places: Int32Array }).places[at] = place;
    }
    return shares;
  }
}

/** The ids that one server has, and where they stand in the whole list. */
interface IdShare {
  readonly ids: BigInt64Array;
  readonly places: Int32Array;
}

function takeRows({ tensor, ids }: SlicesMessage, share: IdShare): SlicesMessage {
  if (share.ids.length === ids.length) return { tensor, ids };
  const rowBytes = tensor.content.length / ids.length;
  const content = new Uint8Array(share.places.length * rowBytes);
  share.places.forEach((place, i) => {
    content.set(tensor.content.subarray(place * rowBytes, (place + 1) * rowBytes), i * rowBytes);
  });
  const [, ...rowShape] = tensor.shape;
  return { tensor: { dtype: tensor.dtype, shape: [share.places.length, ...rowShape], content }, ids: share.ids };
}

/** A message that is there already. */
function fill(message: Uint8Array): AnswerEncoder {
  return (allocate) => {
    const bytes = allocate(message.length);
    bytes.set(message);
    return bytes;
  };
}
