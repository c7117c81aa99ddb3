import { afterEach, expect, it } from "vitest";
import { alignServers } from "../../../src/training/job/align-servers.js";
import { emptyModel } from "../../../src/training/messages.js";
import { ParameterServer } from "../../../src/training/parameter-server.js";
import { PserverClient } from "../../../src/training/pserver-client.js";
import { floats } from "../../support/training.js";

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

it.each([
  { useAsync: true, gradsToWait: 1 },
  { useAsync: false, gradsToWait: 3 },
])(
  "servers that a dead worker left at different versions come to the newest, with the same values: %j",
  async (mode) => {
    const servers: ParameterServer[] = [];
    for (const psId of [0, 1]) {
      servers.push(await ParameterServer.start({ psId, psNum: 2, port: 0, optimizerType: "SGD", ...mode }));
    }
    const addresses = servers.map(({ port }) => `127.0.0.1:${port}`);
    const [first, second] = addresses.map((address) => new PserverClient([address])) as [PserverClient, PserverClient];
    closers.push(
      ...[first, second].map((client) => () => client.close()),
      ...servers.map((server) => () => server.close()),
    );
    const model = { ...emptyModel(), denseParameters: new Map([["w:0", floats([1, 2])]]) };
    for (const client of [first, second]) await client.pushModel(model);
    const push = (modelVersion: number) => first.pushGradients({ modelVersions: [modelVersion] });
    for (let i = 0; i < 2 * mode.gradsToWait; i++) await push(Math.floor(i / mode.gradsToWait));
    await second.pushGradients({ modelVersions: [0] });
    const versions = () => servers.map(({ parameters }) => parameters.modelVersion);
    expect(versions()).toEqual([2, mode.useAsync ? 1 : 0]);
    await alignServers(addresses, mode.gradsToWait);
    expect(versions()).toEqual([2, 2]);
    const { dense } = await second.pullDenseParameters();
    expect(dense.get("w:0")?.content).toEqual(floats([1, 2]).content);
  },
);
