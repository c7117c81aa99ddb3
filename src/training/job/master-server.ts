import type { UnaryHandler } from "../grpc-server.js";
import { GrpcServer, type ListenOptions } from "../grpc-server.js";
import { Master } from "./master.js";
import type { MasterOptions } from "./master-options.js";
import { masterHandlers } from "./master-service.js";

/** How often a master looks around, in milliseconds. */
const TICK_MS = 100;

/** A master that serves workers. */
export class MasterServer {
  readonly master: Master;
  private readonly server: GrpcServer;
  private readonly timer: NodeJS.Timeout;
  private listenPort = 0;

  private constructor(master: Master, handlers: ReadonlyMap<string, UnaryHandler>) {
    this.master = master;
    this.server = new GrpcServer(handlers);
    this.timer = setInterval(() => {
      master.tick().catch((error: unknown) => {
        master.fail("training-failed", error instanceof Error ? error.message : String(error));
      });
    }, TICK_MS);
  }

  /** Begins to serve. @throws StorageError (`rpc-failed`) when the port is taken, and what {@link Master.start} throws */
  static async start(options: MasterOptions, listen: ListenOptions): Promise<MasterServer> {
    const master = await Master.start(options);
    const server = new MasterServer(master, masterHandlers(master));
    try {
      server.listenPort = await server.server.listen(listen);
    } catch (error) {
      clearInterval(server.timer);
      throw error;
    }
    return server;
  }

  /** The port that it serves. */
  get port(): number {
    return this.listenPort;
  }

  /** Takes no more calls. */
  async close(): Promise<void> {
    clearInterval(this.timer);
    await this.server.close();
  }
}
