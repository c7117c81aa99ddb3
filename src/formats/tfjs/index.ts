import type { FileStore } from "../../bytes/file-store.js";
import { baseName } from "../../bytes/path.js";
import type { ShardPlan } from "../../sharding/shard-plan.js";
import type { TensorSource } from "../../tensor/tensor-source.js";
import type { Detection, Format, Outline, VerifyEvent, VerifyOptions, WriteOptions } from "../format.js";
import { fitTfjsTemplate } from "./fit-template.js";
import { findModelJson, MODEL_JSON } from "./locate.js";
import { TfjsModel } from "./model.js";
import { outlineTfjs } from "./outline.js";
import { planTfjs } from "./plan.js";
import { refusedWeight } from "./refuse.js";
import { verifyTfjs } from "./verify.js";
import { writeTfjs } from "./write.js";

/** Models of TF.js: `model.json` and files of weights, of layers models, graph models, and weights alone. */
export const tfjsFormat: Format = {
  id: "tfjs",

  async detect(files: FileStore, path: string): Promise<Detection | undefined> {
    const found = await findModelJson(files, path);
    if (found === undefined) return undefined;
    return { format: "tfjs", files, path, description: "TF.js model", notes: [] };
  },

  async outline({ files, path }: Detection): Promise<Outline> {
    const model = await TfjsModel.open(files, path);
    try {
      return { root: await outlineTfjs(model), close: () => model.close() };
    } catch (error) {
      await model.close();
      throw error;
    }
  },

  verify(detection: Detection, options?: VerifyOptions): AsyncIterable<VerifyEvent> {
    return verifyTfjs(detection, options);
  },

  openTensors({ files, path }: Detection): Promise<TensorSource> {
    return TfjsModel.open(files, path);
  },

  ownsName(path: string): boolean {
    return baseName(path) === MODEL_JSON;
  },

  refuses: refusedWeight,

  fitTemplate: fitTfjsTemplate,

  planTensors(_path, tensors, maxShardSize): ShardPlan {
    return planTfjs(tensors, maxShardSize);
  },

  writeTensors(files: FileStore, path: string, plan: ShardPlan, options?: WriteOptions): Promise<void> {
    return writeTfjs(files, path, plan, options);
  },
};
