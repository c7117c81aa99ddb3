import type * as Core from "@tensorflow/tfjs-core";
import type * as Layers from "@tensorflow/tfjs-layers";
import { UsageError } from "../../errors.js";

/** What a model definition is given: TF.js core and layers under one name, as in the package `@tensorflow/tfjs`. */
export type Tf = typeof Core & typeof Layers;

/** A tensor of TF.js. */
export type TfTensor = Core.Tensor;

/** A variable of TF.js. */
export type TfVariable = Core.Variable;

/** A model of TF.js layers. */
export type TfModel = Layers.LayersModel;

let loaded: Promise<Tf> | undefined;

/**
 * TF.js on its CPU backend, whose results are the same on every machine and in every run.
 * @throws {@link UsageError} (`usage`) when its packages are not installed
 */
export function loadTf(): Promise<Tf> {
  loaded ??= importTf();
  return loaded;
}

async function importTf(): Promise<Tf> {
  try {
    const core = await import("@tensorflow/tfjs-core");
    // Else it advises its native package at every start in Node; a log is no place for that.
    core.enableProdMode();
    await import("@tensorflow/tfjs-backend-cpu");
    const layers = await import("@tensorflow/tfjs-layers");
    await core.setBackend("cpu");
    await core.ready();
    return { ...core, ...layers } as unknown as Tf;
  } catch (cause) {
    throw new UsageError("usage", "TF.js, which computes gradients, is not there", {
      cause,
      hint: "npm install @tensorflow/tfjs-core @tensorflow/tfjs-layers @tensorflow/tfjs-backend-cpu",
    });
  }
}
