import { describe, expect, it } from "vitest";
import { LocalStore } from "../../../src/training/job/local-store.js";
import { meanGradients } from "../../../src/training/job/mean-gradients.js";
import type { ParameterStore } from "../../../src/training/job/parameter-store.js";
import { Reducer } from "../../../src/training/job/reducer.js";
import { emptyModel, type ModelMessage } from "../../../src/training/messages.js";
import { checkDefinition } from "../../../src/training/model/model-definition.js";
import { TrainableModel } from "../../../src/training/model/trainable-model.js";
import { numbers } from "../../support/training.js";
import { TOY } from "./toy-model.js";

function gradients(modelVersion: number, ...values: number[]): ModelMessage {
  const content = new Uint8Array(Float32Array.from(values).buffer);
  const tensor = { dtype: 1, shape: [values.length], content };
  return { ...emptyModel(), modelVersion, denseParameters: new Map([["w:0", tensor]]) };
}

const dense = (model: ModelMessage) => numbers(model.denseParameters.get("w:0")?.content as Uint8Array);

describe("the mean of gradients", () => {
  it("is that of one worker on the joined batch", async () => {
    const model = await TrainableModel.build(checkDefinition(TOY), 1);
    const store: ParameterStore = await LocalStore.open({ optimizer: { type: "SGD", args: "" }, seed: 2 });
    await store.prepare(model.tableInfos);
    const compute = async (start: number, end: number) => {
      const batch = model.check(TOY.data.training.read(start, end), end - start);
      const { dense: denseParameters, rows: embeddingTables } = await model.gradients(batch, store);
      return { gradients: { ...emptyModel(), denseParameters, embeddingTables }, records: end - start };
    };
    const parts = [await compute(0, 3), await compute(3, 8), await compute(8, 10)];
    const idle = { gradients: emptyModel(), records: 0 };
    const mean = meanGradients([...parts, idle]);
    const joined = await compute(0, 10);
    expect(mean.records).toBe(10);
    expect([...mean.gradients.denseParameters.keys()]).toEqual([...joined.gradients.denseParameters.keys()]);
    for (const [name, { content }] of joined.gradients.denseParameters) {
      const given = numbers(mean.gradients.denseParameters.get(name)?.content as Uint8Array);
      numbers(content).forEach((value, i) => void expect(given[i]).toBeCloseTo(value, 5));
    }
    const rowsOf = ({ embeddingTables }: ModelMessage) => {
      const { ids, tensor } = embeddingTables.get("words") as NonNullable<ReturnType<typeof embeddingTables.get>>;
      const values = numbers(tensor.content);
      return new Map(Array.from(ids, (id, row) => [id, values.slice(row * 2, row * 2 + 2)]));
    };
    const [given, wanted] = [rowsOf(mean.gradients), rowsOf(joined.gradients)];
    expect([...given.keys()].sort()).toEqual([...wanted.keys()].sort());
    for (const [id, row] of wanted) row.forEach((value, k) => void expect(given.get(id)?.[k]).toBeCloseTo(value, 5));
  });

  it("of one worker is its own, bit for bit", () => {
    const own = gradients(3, 0.1, -1e-30, 7);
    const mean = meanGradients([
      { gradients: emptyModel(), records: 0 },
      { gradients: own, records: 5 },
    ]);
    expect(mean.gradients).toBe(own);
  });

  it("refuses variables of two shapes", () => {
    const two = [gradients(0, 1, 2), gradients(0, 1)].map((one) => ({ gradients: one, records: 1 }));
    expect(() => meanGradients(two)).toThrow(/"w:0" from two workers: expected \[2\], got \[1\]/);
  });
});

describe("workers that average", () => {
  const all = (reducer: Reducer, ids: number[]) => ids.map((id) => reducer.rank(id)).at(-1)?.rendezvousId as number;

  it("all get the same mean by records", async () => {
    const reducer = new Reducer(2);
    expect(reducer.rank(7).rank).toBe(-1);
    const rendezvousId = all(reducer, [7, 3]);
    expect([reducer.rank(3).rank, reducer.rank(7).rank]).toEqual([0, 1]);
    const answers = await Promise.all([
      reducer.reduce({ workerId: 3, rendezvousId, gradients: gradients(0, 4), records: 1 }),
      reducer.reduce({ workerId: 7, rendezvousId, gradients: gradients(0, 8), records: 3 }),
    ]);
    expect(answers.map((answer) => dense(answer?.gradients as ModelMessage))).toEqual([[7], [7]]);
  });

  it("go on without one that is lost, and leave it out when it comes back", async () => {
    const reducer = new Reducer(3);
    const before = all(reducer, [0, 1, 2]);
    const waiting = [1, 2].map((workerId) => {
      return reducer.reduce({ workerId, rendezvousId: before, gradients: gradients(5, workerId), records: 1 });
    });
    reducer.remove(0);
    expect(await Promise.all(waiting)).toEqual([undefined, undefined]);
    const { rendezvousId, rank, worldSize } = reducer.rank(1);
    expect({ rank, worldSize }).toEqual({ rank: 0, worldSize: 2 });
    expect(rendezvousId).not.toBe(before);
    const answers = await Promise.all(
      [1, 2].map((workerId) =>
        reducer.reduce({ workerId, rendezvousId, gradients: gradients(5, workerId), records: 1 }),
      ),
    );
    expect(dense(answers[0]?.gradients as ModelMessage)).toEqual([1.5]);
    expect(reducer.rank(0).rank).toBe(-2);
    expect(await reducer.reduce({ workerId: 0, rendezvousId, gradients: gradients(5, 0), records: 1 })).toBeUndefined();
  });

  it("give an answer that was missed once more", async () => {
    const reducer = new Reducer(2);
    const rendezvousId = all(reducer, [0, 1]);
    const call = (workerId: number) => {
      return reducer.reduce({ workerId, rendezvousId, gradients: gradients(9, workerId * 2), records: 1 });
    };
    await Promise.all([call(0), call(1)]);
    expect(dense((await call(0))?.gradients as ModelMessage)).toEqual([1]);
  });
});
