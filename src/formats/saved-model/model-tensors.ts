import type { ByteSource } from "../../bytes/byte-source.js";
import type { FileStore } from "../../bytes/file-store.js";
import { CairnError, isCairnError } from "../../errors.js";
import { compareKeys } from "../../tensor/key-order.js";
import type { Region } from "../../tensor/region.js";
import type { TensorInfo, TensorSource } from "../../tensor/tensor-source.js";
import type { CheckpointReader } from "../checkpoint/checkpoint-reader.js";
import { ModelConstants } from "./constants.js";
import { ModelFile } from "./model-file.js";
import { openVariables } from "./variables.js";

interface OpenedVariables {
  readonly reader?: CheckpointReader | undefined;
  readonly damage?: CairnError | undefined;
}

async function tryVariables(files: FileStore, directory: string): Promise<OpenedVariables> {
  try {
    return { reader: await openVariables(files, directory) };
  } catch (error) {
    if (error instanceof CairnError) return { damage: error };
    throw error;
  }
}

/** The tensors of a model: the variables of its directory, under the keys of their checkpoint, and its constants. */
export class ModelTensors implements TensorSource {
  private readonly constants: ModelConstants;
  private readonly variables: CheckpointReader | undefined;
  /** Why the variables cannot be opened: the constants can be read all the same. */
  private readonly damage: CairnError | undefined;
  private hasVariables: Promise<boolean> | undefined;

  private constructor(constants: ModelConstants, { reader, damage }: OpenedVariables) {
    this.constants = constants;
    this.variables = reader;
    this.damage = damage;
  }

  /** Opens a model. @throws As `ModelFile.open` does */
  static async open(files: FileStore, path: string): Promise<ModelTensors> {
    const model = await ModelFile.open(files, path);
    const { directory } = model.paths;
    try {
      const variables = directory === undefined ? {} : await tryVariables(files, directory);
      return new ModelTensors(new ModelConstants(model), variables);
    } catch (error) {
      await model.close();
      throw error;
    }
  }

  /** All tensors in key order. When the index of the variables is damaged, the others are given first. */
  async *tensors(): AsyncGenerator<TensorInfo> {
    const found: TensorInfo[] = [];
    let { damage } = this;
    try {
      for await (const info of this.variables?.tensors() ?? []) found.push(asVariable(info));
    } catch (error) {
      if (!(error instanceof CairnError)) throw error;
      damage = error;
    }
    const known = new Set(found.map(({ key }) => key));
    for await (const info of this.constants.tensors()) {
      // The keys of variables and of nodes are of different forms; a variable would come first.
      if (!known.has(info.key)) found.push(await this.asConstant(info));
    }
    yield* found.sort((a, b) => compareKeys(a.key, b.key));
    if (damage !== undefined) throw damage;
  }

  /** See {@link TensorSource.info}. */
  async info(key: string): Promise<TensorInfo> {
    const { source, isConstant } = await this.find(key);
    const info = await source.info(key);
    return isConstant ? this.asConstant(info) : asVariable(info);
  }

  /** See {@link TensorSource.data}. */
  async data(key: string, region?: Region): Promise<ByteSource> {
    return (await this.find(key)).source.data(key, region);
  }

  /** See {@link TensorSource.verify}. */
  async verify(): Promise<void> {
    await this.variables?.verify();
    await this.constants.verify();
  }

  /** See {@link TensorSource.close}. */
  async close(): Promise<void> {
    await this.variables?.close();
    await this.constants.close();
  }

  private async find(key: string): Promise<{ source: TensorSource; isConstant: boolean }> {
    if (this.variables === undefined) {
      if (this.damage !== undefined && !(await this.isConstant(key))) throw this.damage;
      return { source: this.constants, isConstant: true };
    }
    try {
      await this.variables.info(key);
      return { source: this.variables, isConstant: false };
    } catch (error) {
      if (isCairnError(error, "no-such-key")) return { source: this.constants, isConstant: true };
      throw error;
    }
  }

  private async isConstant(key: string): Promise<boolean> {
    try {
      await this.constants.info(key);
      return true;
    } catch (error) {
      if (isCairnError(error, "no-such-key")) return false;
      throw error;
    }
  }

  /** The constants of a model with variables are not what its training gave; of another model they are all there is. */
  private async asConstant(info: TensorInfo): Promise<TensorInfo> {
    this.hasVariables ??= this.lookForVariables();
    return (await this.hasVariables) ? { ...info, role: "constant" } : info;
  }

  private async lookForVariables(): Promise<boolean> {
    if (this.damage !== undefined) return true;
    try {
      for await (const { role } of this.variables?.tensors() ?? []) if (role === undefined) return true;
      return false;
    } catch (error) {
      // What cannot be listed is told of by `tensors`.
      if (error instanceof CairnError) return true;
      throw error;
    }
  }
}

/** A variable: its key is that of the checkpoint that it is in. */
function asVariable(info: TensorInfo): TensorInfo {
  return { ...info, origin: "checkpoint" };
}
