import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { isCairnError } from "../../src/errors.js";
import { placeOn } from "../../src/tracking/devices.js";
import { gatherTensors } from "../../src/tracking/gather.js";
import { escapeLocalName, objectPath, slotPath, tensorKey, unescapeLocalName } from "../../src/tracking/object-path.js";
import { CheckpointRoot } from "../../src/tracking/root.js";
import { TrackedNumber } from "../../src/tracking/scalars.js";
import { MemoryCheckpoint } from "./memory-checkpoint.js";
import { Net, tf } from "./tfjs-models.js";

beforeAll(async () => {
  await tf.setBackend("cpu");
});

async function errorOf(work: Promise<unknown> | (() => unknown)): Promise<Error> {
  try {
    await (typeof work === "function" ? work() : work);
  } catch (error) {
    return error as Error;
  }
  throw new Error("nothing was thrown");
}

describe("local names in keys", () => {
  // What TensorFlow 2.18 writes for these names.
  it.each([
    ["a/b", "a.Sb"],
    ["a.b", "a..b"],
    [".S", "..S"],
    ["..", "...."],
    ["sp ace", "sp ace"],
    [".ATTRIBUTES", "..ATTRIBUTES"],
  ])("escapes %s as %s", (name, escaped) => {
    expect(escapeLocalName(name)).toBe(escaped);
  });

  it("come back from their escaped form", () => {
    const name = fc.string({ unit: fc.constantFrom("a", ".", "/", "S", "é", "😀") });
    fc.assert(
      fc.property(
        name,
        (text) => unescapeLocalName(escapeLocalName(text)) === text && !escapeLocalName(text).includes("/"),
      ),
    );
  });

  it("make up keys", () => {
    expect(tensorKey(objectPath(["d", "a/b"]), "VARIABLE_VALUE")).toBe("d/a.Sb/.ATTRIBUTES/VARIABLE_VALUE");
    expect(tensorKey("", "X")).toBe("/.ATTRIBUTES/X");
    expect(slotPath("model/w", "optimizer", "m")).toBe("model/w/.OPTIMIZER_SLOT/optimizer/m");
  });
});

describe("lists, maps, numbers and strings", () => {
  const make = (x: number) => ({
    epoch: x,
    rate: x / 3,
    note: `run ${x}`,
    list: [tf.variable(tf.scalar(x)), [x, "inner"], { deep: new Map([["k", x]]) }],
    step: new TrackedNumber(x),
  });

  it("come back in their places", async () => {
    const saved = await MemoryCheckpoint.of(make(5));
    const state = make(0);
    const map = (state.list[2] as { deep: Map<string, number> }).deep;
    (await saved.restoreInto(state)).assertConsumed();
    expect(state).toMatchObject({ epoch: 5, rate: 5 / 3, note: "run 5" });
    expect(state.list[1]).toEqual([5, "inner"]);
    expect(map.get("k")).toBe(5);
    expect(state.step.value).toBe(5);
    expect((state.list[0] as tf.Variable).dataSync()[0]).toBe(5);
  });

  it("have TensorFlow's keys", async () => {
    const saved = await MemoryCheckpoint.of(make(5));
    const keys = [...saved.values.keys()].map((key) => key.replace("/.ATTRIBUTES/VARIABLE_VALUE", ""));
    expect(keys).toEqual([
      "epoch",
      "rate",
      "note",
      "step",
      "list/0",
      "list/1/0",
      "list/1/1",
      "list/2/deep/k",
      "_CHECKPOINTABLE_OBJECT_GRAPH",
    ]);
  });

  it("take a number of any numeric dtype, and refuse an int64 that is none", async () => {
    const saved = await MemoryCheckpoint.of({ a: new TrackedNumber(2 ** 53 - 1) });
    const state = { a: 0 };
    await saved.restoreInto(state);
    expect(state.a).toBe(2 ** 53 - 1);
    saved.values.get("a/.ATTRIBUTES/VARIABLE_VALUE")!.bytes.fill(0x70);
    expect(isCairnError(await errorOf(saved.restoreInto(state)), "usage")).toBe(true);
    expect(state.a).toBe(2 ** 53 - 1);
  });

  it("refuse what has no tensor form", async () => {
    for (const value of [true, 1n, () => 1, new Date(), Symbol.iterator]) {
      expect(isCairnError(await errorOf(MemoryCheckpoint.of({ value })), "usage")).toBe(true);
    }
    expect(isCairnError(await errorOf(MemoryCheckpoint.of({ step: new TrackedNumber(0.5) })), "usage")).toBe(true);
  });
});

describe("variables of TF.js", () => {
  const make = () => ({
    float: tf.variable(tf.tensor([1.5, Number.NaN, -0], [3, 1])),
    int: tf.variable(tf.tensor([-7, 2 ** 31 - 1], [2], "int32")),
    bool: tf.variable(tf.tensor([true, false], [2], "bool")),
    string: tf.variable(tf.tensor(["", "äß", "😀"], [3], "string")),
    complex: tf.variable(tf.complex([1, 2], [3, 4])),
    empty: tf.variable(tf.zeros([0, 4])),
  });
  const blank = () => ({
    float: tf.variable(tf.zeros([3, 1])),
    int: tf.variable(tf.zeros([2], "int32")),
    bool: tf.variable(tf.zeros([2], "bool")),
    string: tf.variable(tf.tensor(["x", "y", "z"], [3], "string")),
    complex: tf.variable(tf.complex([0, 0], [0, 0])),
    empty: tf.variable(tf.zeros([0, 4])),
  });

  it("come back in every dtype of TF.js", async () => {
    const from = make();
    const to = blank();
    (await (await MemoryCheckpoint.of(from)).restoreInto(to)).assertConsumed();
    for (const name of Object.keys(from) as (keyof typeof from)[]) {
      expect(to[name].dtype).toBe(from[name].dtype);
      expect(await to[name].data()).toEqual(await from[name].data());
    }
  });

  it("keep strings that are not UTF-8", async () => {
    const from = { s: tf.variable(tf.tensor([Uint8Array.of(0xff, 0)] as never, [1], "string")) };
    const to = { s: tf.variable(tf.tensor(["a"], [1], "string")) };
    await (await MemoryCheckpoint.of(from)).restoreInto(to);
    expect(await to.s.bytes()).toEqual([Uint8Array.of(0xff, 0)]);
  });

  it("are saved as they were when the save began, and leave no tensor behind", async () => {
    const w = tf.variable(tf.scalar(1));
    const count = tf.memory().numTensors;
    const begun = gatherTensors(new CheckpointRoot({ w }), "cpu");
    tf.tidy(() => w.assign(tf.scalar(2)));
    const { tensors, dispose } = await begun;
    const data = await tensors[0]!.tensor.data();
    expect(new Float32Array((await data.read(0, 4)).slice().buffer)[0]).toBe(1);
    dispose();
    expect(tf.memory().numTensors).toBe(count);
    const saved = await MemoryCheckpoint.of({ w: tf.variable(tf.scalar(3)) });
    const before = tf.memory().numTensors;
    await saved.restoreInto({ w });
    expect(w.dataSync()[0]).toBe(3);
    expect(tf.memory().numTensors).toBe(before);
  });

  it("are one tensor under the first path that leads to them", async () => {
    const shared = tf.variable(tf.scalar(1));
    const saved = await MemoryCheckpoint.of({ b: { inner: shared }, a: shared });
    expect([...saved.values.keys()]).toEqual(["a/.ATTRIBUTES/VARIABLE_VALUE", "_CHECKPOINTABLE_OBJECT_GRAPH"]);
  });

  it.each([
    ["shape", tf.zeros, [2, 2], "float32", "float32 [2, 2]", "float32 [3]"],
    ["dtype", tf.zeros, [3], "int32", "int32 [3]", "float32 [3]"],
  ] as const)(
    "of another %s are refused, and nothing is restored",
    async (_, zeros, shape, dtype, expected, actual) => {
      const saved = await MemoryCheckpoint.of({ a: 1, w: tf.variable(tf.ones([3])) });
      const state = { a: 0, w: tf.variable(zeros([...shape], dtype)) };
      const error = await errorOf(saved.restoreInto(state));
      expect(isCairnError(error, "tensor-mismatch")).toBe(true);
      expect(error).toMatchObject({ expected, actual });
      expect(error.message).toContain('"w/.ATTRIBUTES/VARIABLE_VALUE"');
      expect(state.a).toBe(0);
    },
  );
});

describe("an own class", () => {
  it("is a node with its children, also in a circle", async () => {
    const net = new Net(3);
    const parent = {
      checkpointChildren: () =>
        [
          ["net", net],
          ["self", parent],
        ] as never,
    };
    const saved = await MemoryCheckpoint.of({ parent });
    expect([...saved.values.keys()].slice(0, 3)).toEqual(
      ["w", "b", "w2"].map((name) => `parent/net/${name}/.ATTRIBUTES/VARIABLE_VALUE`),
    );
    const other = new Net(4);
    const copy = { checkpointChildren: () => [["net", other]] as never };
    (await saved.restoreInto({ parent: copy })).assertConsumed();
    expect(other.values()).toEqual(net.values());
  });

  it("may have two children of one name for an error only", async () => {
    const twice = {
      checkpointChildren: () =>
        [
          ["a", new Net(1)],
          ["a", new Net(2)],
        ] as never,
    };
    expect(isCairnError(await errorOf(MemoryCheckpoint.of({ twice })), "usage")).toBe(true);
  });

  it("can be the root itself", async () => {
    const saved = await MemoryCheckpoint.of(new Net(3));
    expect([...saved.values.keys()][0]).toBe("w/.ATTRIBUTES/VARIABLE_VALUE");
    expect(saved.graph[0]?.children.at(-1)).toEqual({ name: "root", nodeId: 0 });
    const other = new Net(4);
    (await saved.restoreInto(other)).assertConsumed();
    expect(other.values()).toEqual(new Net(3).values());
  });

  it("says where its tensors are", async () => {
    const a = placeOn(tf.variable(tf.scalar(1)), "/job:ps/task:0");
    const optimizer = tf.train.adam(0.1);
    const net = new Net(1);
    placeOn(net.w, "/job:ps/task:1");
    net.train(optimizer, 1);
    const { tensors, dispose } = await gatherTensors(new CheckpointRoot({ a, net, optimizer }), "/job:local");
    dispose();
    const places = Object.fromEntries(tensors.map(({ key, device }) => [key.replace(/\/.ATTRIBUTES.*/, ""), device]));
    expect(places).toMatchObject({
      a: "/job:ps/task:0",
      "net/w": "/job:ps/task:1",
      "net/w/.OPTIMIZER_SLOT/optimizer/m": "/job:ps/task:1",
      "net/b": "/job:local",
      _CHECKPOINTABLE_OBJECT_GRAPH: "/job:local",
    });
  });
});

describe("a restore", () => {
  it("gives a value to what is attached later", async () => {
    const saved = await MemoryCheckpoint.of({
      first: tf.variable(tf.scalar(1)),
      later: { w: tf.variable(tf.scalar(2)) },
    });
    const state: Record<string, unknown> = { first: tf.variable(tf.scalar(0)) };
    const status = await saved.restoreInto(state);
    status.assertExistingObjectsMatched().assertNontrivialMatch().expectPartial();
    expect(isCairnError(await errorOf(() => status.assertConsumed()), "not-consumed")).toBe(true);
    expect(status.unmatchedKeys).toEqual(["later/w/.ATTRIBUTES/VARIABLE_VALUE"]);
    const w = tf.variable(tf.scalar(0));
    (state.first as tf.Variable).assign(tf.scalar(9));
    state.later = { w };
    await status.again();
    expect(w.dataSync()[0]).toBe(2);
    expect((state.first as tf.Variable).dataSync()[0]).toBe(9);
    status.assertConsumed();
  });

  it("says which objects have no value", async () => {
    const saved = await MemoryCheckpoint.of({ a: 1 });
    const status = await saved.restoreInto({ a: 0, b: { c: 0 } });
    const error = await errorOf(() => status.assertExistingObjectsMatched());
    expect(error).toMatchObject({ code: "not-consumed", actual: "b/c" });
  });

  it("says that nothing but the root was matched", async () => {
    const saved = await MemoryCheckpoint.of({ a: 1 });
    const status = await saved.restoreInto({ z: 0 });
    expect(isCairnError(await errorOf(() => status.assertNontrivialMatch()), "not-consumed")).toBe(true);
    expect(isCairnError(await errorOf(() => status.assertConsumed()), "not-consumed")).toBe(true);
  });

  it("says when two stored objects lead to one", async () => {
    const saved = await MemoryCheckpoint.of({ a: tf.variable(tf.scalar(1)), b: tf.variable(tf.scalar(2)) });
    const shared = tf.variable(tf.scalar(0));
    const status = await saved.restoreInto({ a: shared, b: shared });
    expect(shared.dataSync()[0]).toBe(1);
    expect(status.unmatchedKeys).toEqual(["b/.ATTRIBUTES/VARIABLE_VALUE"]);
  });

  it("says when the graph names a tensor that is not there", async () => {
    const saved = await MemoryCheckpoint.of({ a: 1 });
    saved.values.delete("a/.ATTRIBUTES/VARIABLE_VALUE");
    expect(isCairnError(await errorOf(saved.restoreInto({ a: 0 })), "object-graph")).toBe(true);
  });
});
