import { describe, expect, it } from "vitest";
import { isCairnError, PlanError, UsageError } from "../../src/errors.js";
import { planShards } from "../../src/sharding/plan-shards.js";
import { ShardByDevicePolicy } from "../../src/sharding/shard-by-device.js";
import { ShardByTaskPolicy } from "../../src/sharding/shard-by-task.js";
import { ShardableTensor, type ShardableTensorFields } from "../../src/sharding/shardable-tensor.js";
import {
  addSlice,
  ShardingCallback,
  type ShardingContext,
  type TensorSliceDict,
} from "../../src/sharding/sharding-callback.js";
import type { LazyTensor } from "../../src/tensor/lazy-tensor.js";
import { memoryTensor, numberTensor, stringTensor } from "../../src/tensor/memory-tensor.js";
import type { Shape } from "../../src/tensor/shape.js";
import { elementCount } from "../../src/tensor/shape.js";
import { sliceTensor } from "../../src/tensor/sliced-tensor.js";

type Answer = (tensors: readonly ShardableTensor[], context: ShardingContext) => unknown;

/** A callback that answers as it is told. */
class Answering extends ShardingCallback {
  readonly description = "Does as the test says.";
  readonly calls: (readonly ShardableTensor[])[] = [];
  private readonly answer: Answer;

  constructor(answer: Answer) {
    super();
    this.answer = answer;
  }

  call(tensors: readonly ShardableTensor[], context: ShardingContext) {
    this.calls.push(tensors);
    return this.answer(tensors, context) as TensorSliceDict[];
  }
}

const floats = (shape: Shape) => numberTensor(new Float32Array(elementCount(shape)), shape);
const tensor = (checkpointKey: string, fields: Partial<ShardableTensorFields> = {}) =>
  new ShardableTensor({ checkpointKey, tensor: floats([4]), ...fields });
const shard = (...slices: [key: string, spec: string, tensor: LazyTensor][]): TensorSliceDict => {
  const dict: TensorSliceDict = new Map();
  for (const slice of slices) addSlice(dict, ...slice);
  return dict;
};
const part = (whole: LazyTensor, start: number, end: number) => sliceTensor(whole, [{ start, end }]);
const allIn = (tensors: readonly ShardableTensor[]) => new ShardByTaskPolicy().call(tensors);

async function refusal(tensors: ShardableTensor[], answer: Answer): Promise<PlanError> {
  const error: unknown = await planShards(tensors, new Answering(answer)).then(
    () => undefined,
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(PlanError);
  return error as PlanError;
}

describe("a plan", () => {
  it("has the shards of all tasks, in the order in which the tasks appear", async () => {
    const callback = new Answering(allIn);
    const tensors = [
      tensor("a", { device: "/job:worker/task:1/device:GPU:0" }),
      tensor("b", { device: "/job:worker/replica:0/task:0/device:CPU:0" }),
      tensor("c", { device: "/job:worker/task:1/cpu:0" }),
      tensor("d"),
      tensor("e", { device: "/device:GPU:3" }),
    ];
    const plan = await planShards(tensors, callback);
    expect(plan.shards.map(({ task, slices }) => [task, slices.map(({ key }) => key)])).toEqual([
      ["/job:worker/replica:0/task:1/device:CPU:0", ["a", "c"]],
      ["/job:worker/replica:0/task:0/device:CPU:0", ["b"]],
      ["/job:localhost/replica:0/task:0/device:CPU:0", ["d", "e"]],
    ]);
    expect(callback.calls).toEqual([[tensors[0], tensors[2]], [tensors[1]], [tensors[3], tensors[4]]]);
  });

  it("keeps the order of the callback's maps, and what it warns of", async () => {
    const [a, b] = [tensor("a"), tensor("b")];
    const plan = await planShards(
      [a, b],
      new Answering((_, context) => {
        context.warn("careful");
        return [
          shard(["b", "4 2,2", part(b.tensor, 2, 4)], ["a", "", a.tensor], ["b", " 4 0,2 ", part(b.tensor, 0, 2)]),
        ];
      }),
    );
    expect(plan.shards[0].slices.map(({ key, sliceSpec }) => [key, sliceSpec])).toEqual([
      ["b", "4 2,2"],
      ["b", "4 0,2"],
      ["a", ""],
    ]);
    expect(plan.warnings).toEqual(["careful"]);
    expect(plan.description).toBe("Does as the test says.");
    expect(plan.callbackDurationUs).toBeGreaterThanOrEqual(1);
  });

  it("takes a callback that answers later", async () => {
    const plan = await planShards([tensor("a")], new Answering(async (tensors) => allIn(tensors)));
    expect(plan.shards.length).toBe(1);
  });

  it("takes a callback that changes its list", async () => {
    const callback = new Answering((tensors) => allIn((tensors as ShardableTensor[]).splice(0)));
    expect((await planShards([tensor("a"), tensor("b")], callback)).shards[0].slices.length).toBe(2);
  });

  it("takes a callback of another copy of the library", async () => {
    const callback = { description: "Its own.", call: allIn };
    expect((await planShards([tensor("a")], callback)).shards.length).toBe(1);
  });

  it("takes slices that are joined and cut otherwise than they came", async () => {
    const whole = floats([6]);
    const tensors = [
      tensor("a", { sliceSpec: "9 0,3", tensor: part(whole, 0, 3) }),
      tensor("a", { sliceSpec: "9 3,3", tensor: part(whole, 3, 6) }),
    ];
    const answer = () => [shard(["a", "9 0,5", part(whole, 0, 5)], ["a", "9 5,1", part(whole, 5, 6)])];
    const plan = await planShards(tensors, new Answering(answer));
    expect(plan.shards[0].slices.map(({ region }) => region)).toEqual([[{ start: 0, end: 5 }], [{ start: 5, end: 6 }]]);
  });

  it("takes a tensor whose slices are of different tasks", async () => {
    const tensors = [
      tensor("a", { sliceSpec: "8 0,4", device: "/task:0" }),
      tensor("a", { sliceSpec: "8 4,4", device: "/task:1" }),
    ];
    expect((await planShards(tensors, new ShardByTaskPolicy())).shards.length).toBe(2);
  });

  it("takes slices that no straight cut makes", async () => {
    const whole = numberTensor(new Uint8Array(9), [3, 3]);
    const specs = ["3 3 0,1:0,2", "3 3 0,2:2,1", "3 3 2,1:1,2", "3 3 1,2:0,1", "3 3 1,1:1,1"];
    const shapes = [
      [1, 2],
      [2, 1],
      [1, 2],
      [2, 1],
      [1, 1],
    ];
    const answer = () => [
      shard(
        ...specs.map((spec, i): [string, string, LazyTensor] => [
          "a",
          spec,
          numberTensor(new Uint8Array(elementCount(shapes[i])), shapes[i]),
        ]),
      ),
    ];
    expect((await planShards([tensor("a", { tensor: whole })], new Answering(answer))).shards[0].slices.length).toBe(5);
  });

  it("of nothing has no shards", async () => {
    expect((await planShards([], new ShardByTaskPolicy())).shards).toEqual([]);
  });

  it("has a shard for each device, those of no device first and numbers by value", async () => {
    const devices = ["/device:GPU:10", "/gpu:2", "", "/job:localhost/replica:0/task:0/device:GPU:2", "/device:GPU:2"];
    const plan = await planShards(
      devices.map((device, i) => tensor(`t${i}`, { device })),
      new ShardByDevicePolicy(),
    );
    expect(plan.shards.map(({ slices }) => slices.map(({ key }) => key))).toEqual([
      ["t2"],
      ["t1", "t4"],
      ["t0"],
      ["t3"],
    ]);
  });
});

describe("a plan is refused when the callback", () => {
  const a = tensor("a");
  const b = tensor("b");
  const wide = tensor("wide", { tensor: floats([4, 6]) });
  const wideSlice = (rows: [number, number], columns: [number, number]) =>
    sliceTensor(
      wide.tensor,
      [rows, columns].map(([start, end]) => ({ start, end })),
    );

  it.each<[string, ShardableTensor[], Answer, RegExp]>([
    ["gives no list", [a], () => undefined, /gave undefined, not a list/],
    ["gives no shard", [a], () => [], /gave no shard/],
    ["leaves a shard empty", [a], () => [shard(["a", "", a.tensor]), new Map()], /left shard 1 .* empty/],
    ["leaves only a key without slices", [a], () => [new Map([["a", new Map()]])], /left shard 0 .* empty/],
    ["gives objects for maps", [a], () => [{ a: { "": a.tensor } }], /not a Map of key/],
    ["gives objects for inner maps", [a], () => [new Map([["a", { "": a.tensor }]])], /as "a", not a Map of slice/],
    ["gives no tensor", [a], () => [new Map([["a", new Map([["", undefined]])]])], /gave undefined for "a"/],
    ["gives numbers as keys", [a], () => [new Map([[1, new Map([["", a.tensor]])]])], /not text/],
    ["leaves a tensor out", [a, b], () => [shard(["a", "", a.tensor])], /left out "b"/],
    ["adds one", [a], () => [shard(["a", "", a.tensor], ["b", "", b.tensor])], /added "b"/],
    [
      "adds one named like a property",
      [a],
      () => [shard(["a", "", a.tensor], ["__proto__", "", b.tensor])],
      /added "__proto__"/,
    ],
    [
      "changes a shape",
      [a],
      () => [shard(["a", "", floats([2, 2])])],
      /changed the shape of "a": expected \[4\], got \[2, 2\]/,
    ],
    ["changes a dtype", [a], () => [shard(["a", "", numberTensor(new Int32Array(4))])], /has dtype int32, not float32/],
    ["gives too few bytes", [a], () => [shard(["a", "", { ...a.tensor, byteLength: 12 }])], /has 12 bytes, not 16/],
    ["saves one twice in two shards", [a], () => [shard(["a", "", a.tensor]), shard(["a", "", a.tensor])], /"a" twice/],
    [
      "saves one whole and in part",
      [a],
      () => [shard(["a", "", a.tensor], ["a", "4 0,2", part(a.tensor, 0, 2)])],
      /slices "4 0,4" and "4 0,2" overlap/,
    ],
    ["saves one under two specs", [a], () => [shard(["a", "", a.tensor], ["a", "4 -", a.tensor])], /overlap/],
    [
      "leaves a part out",
      [a],
      () => [shard(["a", "4 0,3", part(a.tensor, 0, 3)])],
      /left out a part of "a": expected 4 elements, got 3/,
    ],
    [
      "lets slices overlap where others leave room",
      [a],
      () => [shard(["a", "4 0,3", part(a.tensor, 0, 3)], ["a", "4 2,1", part(a.tensor, 2, 3)])],
      /slices "4 0,3" and "4 2,1" overlap/,
    ],
    [
      "lets slices overlap in two dimensions",
      [wide],
      () => [
        shard(["wide", "4 6 0,4:0,4", wideSlice([0, 4], [0, 4])], ["wide", "4 6 3,1:3,3", wideSlice([3, 4], [3, 6])]),
      ],
      /overlap/,
    ],
    [
      "gives a slice of another shape",
      [a],
      () => [shard(["a", "4 0,3", part(a.tensor, 0, 2)])],
      /"a" slice "4 0,3": it has shape \[2\], not \[3\]/,
    ],
    ["gives slices of another whole", [a], () => [shard(["a", "8 0,4", a.tensor])], /changed the shape/],
    ["gives a spec that is none", [a], () => [shard(["a", "first half", a.tensor])], /slice spec that cannot be read/],
    ["gives a spec past the end", [a], () => [shard(["a", "4 2,4", a.tensor])], /slice spec that cannot be read/],
    [
      "saves an empty tensor not at all",
      [tensor("e", { tensor: floats([0]) }), a],
      () => [shard(["a", "", a.tensor])],
      /left out "e"/,
    ],
    [
      "saves an empty tensor twice",
      [tensor("e", { tensor: floats([0]) })],
      () => [shard(["e", "", floats([0])], ["e", "0 0,0", floats([0])])],
      /"e", which is empty, otherwise than once/,
    ],
    [
      "saves a scalar twice",
      [tensor("s", { tensor: floats([]) })],
      () => [shard(["s", "", floats([])]), shard(["s", "", floats([])])],
      /"s" twice/,
    ],
    [
      "saves more than came",
      [tensor("a", { sliceSpec: "8 0,4" })],
      () => [shard(["a", "8 0,5", floats([5])])],
      /parts of "a" that/,
    ],
    [
      "saves other parts than came",
      [tensor("a", { sliceSpec: "8 0,4" })],
      () => [shard(["a", "8 2,4", floats([4])])],
      /parts of "a" that/,
    ],
  ])("%s", async (_, tensors, answer, message) => {
    const error = await refusal(tensors, answer);
    expect(error.code).toBe("invalid-plan");
    expect(error.message).toMatch(message);
    expect(error.message).toContain("Does as the test says.");
  });

  it("puts a tensor into the shard of another task", async () => {
    const tensors = [tensor("a", { device: "/task:0" }), tensor("b", { device: "/task:1" })];
    const error = await refusal(tensors, () => allIn(tensors));
    expect(error.message).toMatch(/put "b" into a shard of .*task:0.*, but it belongs to .*task:1/);
  });

  it("throws an error of its own", async () => {
    const cause = new Error("no idea");
    const error = await refusal([a], () => {
      throw cause;
    });
    expect([error.code, error.cause]).toEqual(["callback-failed", cause]);
    expect(error.message).toContain("no idea");
  });

  it("leaves out one of very many slices", async () => {
    const count = 20_000;
    const column = numberTensor(new Uint8Array(4), [4, 1]);
    const answer = () => [
      new Map([
        [
          "a",
          new Map(Array.from({ length: count }, (_, i) => [`4 ${count} 0,4:${Math.max(0, i - 1)},1`, column] as const)),
        ],
      ]),
    ];
    const huge = { ...column, shape: [4, count], byteLength: 4 * count };
    const error = await refusal([tensor("a", { tensor: huge })], answer);
    expect(error.message).toMatch(/left out a part of "a"/);
  });
});

describe("tensors are refused", () => {
  it.each<[string, ShardableTensor[]]>([
    ["when one comes twice", [tensor("a"), tensor("a")]],
    ["when slices of one overlap", [tensor("a", { sliceSpec: "8 0,4" }), tensor("a", { sliceSpec: "8 3,4" })]],
    ["when one comes twice in different tasks", [tensor("a"), tensor("a", { device: "/task:1" })]],
    ["when an empty one comes twice", [tensor("a", { tensor: floats([0]) }), tensor("a", { tensor: floats([0]) })]],
    ["when slices are of different wholes", [tensor("a", { sliceSpec: "8 0,4" }), tensor("a", { sliceSpec: "9 4,4" })]],
    [
      "when slices differ in dtype",
      [
        tensor("a", { sliceSpec: "8 0,4" }),
        tensor("a", { sliceSpec: "8 4,4", tensor: numberTensor(new Int8Array(4)) }),
      ],
    ],
    ["when a spec is of another shape", [tensor("a", { sliceSpec: "8 0,3" })]],
    ["when a spec is none", [tensor("a", { sliceSpec: "x" })]],
    ["when a device is none", [tensor("a", { device: "the red one" })]],
    ["when a shape is none", [tensor("a", { shape: [-1, -4] })]],
    ["when a shape has too many dimensions", [tensor("a", { shape: Array(300).fill(1) })]],
    ["when dtype and value differ", [tensor("a", { dtype: "float64" })]],
    ["when shape and value differ", [tensor("a", { shape: [2, 2] })]],
  ])("%s", async (_, tensors) => {
    const planned = planShards(tensors, new ShardByTaskPolicy());
    await expect(planned).rejects.toSatisfy(
      (error) => isCairnError(error, "invalid-plan") && error instanceof PlanError,
    );
  });
});

describe("what is no callback", () => {
  it.each<[string, unknown]>([
    ["a class of them", ShardByTaskPolicy],
    ["a function", () => []],
    ["nothing", undefined],
    ["null", null],
    ["one without description", { call: () => [] }],
    ["one with an empty description", { description: " ", call: () => [] }],
  ])("is refused: %s", async (_, callback) => {
    const planned = planShards([tensor("a")], callback as ShardingCallback);
    await expect(planned).rejects.toBeInstanceOf(UsageError);
  });
});

describe("strings and variants", () => {
  it("can be planned", async () => {
    const tensors = [
      tensor("s", { tensor: stringTensor(["a", "bc"]) }),
      tensor("v", { tensor: { ...memoryTensor("uint8", [3], new Uint8Array(3)), dtype: "variant", shape: [] } }),
    ];
    expect((await planShards(tensors, new ShardByTaskPolicy())).shards[0].slices.length).toBe(2);
  });
});
