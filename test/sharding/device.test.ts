import { describe, expect, it } from "vitest";
import { isCairnError } from "../../src/errors.js";
import { compareDevices, formatDevice, parseDevice, taskOf } from "../../src/sharding/device.js";

describe("devices", () => {
  it.each([
    ["/job:worker/replica:2/task:1/device:GPU:0", "/job:worker/replica:2/task:1/device:GPU:0"],
    ["/job:localhost/replica:0/task:0/device:cpu:0", "/job:localhost/replica:0/task:0/device:CPU:0"],
    ["/gpu:1", "/device:GPU:1"],
    ["/cpu:*", "/device:CPU:*"],
    ["/device:TPU_SYSTEM:0", "/device:TPU_SYSTEM:0"],
    ["/task:3/job:ps", "/job:ps/task:3"],
    ["/job:*/replica:*/task:*/device:CPU:*", "/device:CPU:*"],
    ["cpu:0", "/device:CPU:0"],
    ["", ""],
  ])("are read: %s", (text, full) => {
    expect(formatDevice(parseDevice(text))).toBe(full);
    expect(formatDevice(parseDevice(full))).toBe(full);
  });

  it.each([
    "/job:",
    "/job:a:b",
    "/task:-1",
    "/task:x",
    "/device:",
    "/device:GPU:1:2",
    "/device:GPU:one",
    "/colour:red",
    "red",
  ])("are refused: %s", (text) => {
    expect.assertions(1);
    try {
      parseDevice(text);
    } catch (error) {
      expect(isCairnError(error, "usage")).toBe(true);
    }
  });

  it("are of the task of their host", () => {
    const tasks = ["", "/gpu:1", "/job:worker/task:2/gpu:1"].map((text) => taskOf(parseDevice(text)));
    expect(tasks).toEqual([
      "/job:localhost/replica:0/task:0/device:CPU:0",
      "/job:localhost/replica:0/task:0/device:CPU:0",
      "/job:worker/replica:0/task:2/device:CPU:0",
    ]);
  });

  it("are ordered by their parts, numbers by value and what is absent first", () => {
    const ordered = ["", "/cpu:0", "/cpu:9", "/cpu:10", "/gpu:1", "/task:2", "/task:10", "/job:a", "/job:b/cpu:1"];
    const sorted = [...ordered].reverse().map(parseDevice).sort(compareDevices).map(formatDevice);
    expect(sorted).toEqual(ordered.map((text) => formatDevice(parseDevice(text))));
  });
});
