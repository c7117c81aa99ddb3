import { PserverClient } from "../pserver-client.js";

/** A version that no server has: a pull with it brings no variables. */
const NEWEST = 2 ** 31 - 1;
/** A server that says nothing for so long is gone, in milliseconds. */
const CALL_TIMEOUT_MS = 10_000;

/**
 * Brings servers of different versions to the newest of them, by pushes with nothing in them: a worker that died between
 * two servers leaves one behind, and then their last shards would be of different versions. To be called when no worker
 * trains any more. Gives how many versions the one that was furthest behind was behind.
 * @throws RpcError (`rpc-failed`)
 */
export async function alignServers(addresses: readonly string[], gradsToWait: number): Promise<number> {
  const clients = addresses.map((address) => new PserverClient([address], { timeoutMs: CALL_TIMEOUT_MS }));
  try {
    const versions = await Promise.all(clients.map(versionOf));
    const newest = Math.max(...versions);
    for (const [psId, client] of clients.entries())
      await advance(client, versions[psId] as number, newest, gradsToWait);
    return newest - Math.min(...versions);
  } finally {
    for (const client of clients) client.abort();
  }
}

async function versionOf(client: PserverClient): Promise<number> {
  return (await client.pullDenseParameters([NEWEST])).modelVersions[0] ?? 0;
}

async function advance(client: PserverClient, from: number, to: number, gradsToWait: number): Promise<void> {
  let modelVersion = from;
  for (let push = 0; modelVersion < to && push < (to - from) * gradsToWait; push++) {
    const [answer] = await client.pushGradients({ modelVersions: [modelVersion] });
    modelVersion = answer?.modelVersion ?? modelVersion;
  }
}
