import { readdirSync } from "node:fs";
import { fromBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { fingerprint64 } from "../../src/codecs/farmhash.js";
import { FingerprintDefSchema } from "../../src/proto/gen/tensorflow/core/protobuf/fingerprint_pb.js";
import { fixturePath, readFixture } from "../support/fixtures.js";

const models = [
  ...readdirSync(fixturePath("cpb/models")).map((name) => `cpb/models/${name}`),
  "checkpoints/saved_model/sm",
].filter((path) => readdirSync(fixturePath(path)).includes("fingerprint.pb"));

describe("Fingerprint64", () => {
  it.each(models)("gives the hash of the variables that TensorFlow wrote for %s", (path) => {
    const { checkpointHash } = fromBinary(FingerprintDefSchema, readFixture(`${path}/fingerprint.pb`));
    expect(fingerprint64(readFixture(`${path}/variables/variables.index`))).toBe(checkpointHash);
  });

  it("has no value for what is shorter than any index", () => {
    expect(fingerprint64(new Uint8Array(64))).toBeUndefined();
  });
});
