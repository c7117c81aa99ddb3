import { once } from "node:events";
import type { ByteSink } from "../bytes/byte-sink.js";
import { StorageError } from "../errors.js";
import { EXIT } from "./terminal.js";

/** Standard output as a sink. What has been written is gone, so it cannot be aborted. */
export class StdoutSink implements ByteSink {
  readonly name = "standard output";
  position = 0;
  private failure: Error | undefined;

  /** Takes standard output over. Until the command has set another exit code, its end is a failure to write. */
  constructor() {
    process.exitCode = EXIT.output;
    process.stdout.on("error", (error) => {
      this.failure = error;
    });
  }

  /** See {@link ByteSink.write}. The stream may keep the memory, so it is given a copy. */
  async write(bytes: Uint8Array | readonly Uint8Array[]): Promise<void> {
    for (const piece of bytes instanceof Uint8Array ? [bytes] : bytes) {
      if (this.failure !== undefined)
        throw new StorageError("write-failed", `cannot write: ${this.failure.message}`, { file: this.name });
      this.position += piece.length;
      if (!process.stdout.write(piece.slice()))
        await Promise.race([once(process.stdout, "drain"), once(process.stdout, "close")]);
    }
  }

  /** Nothing is left to do. */
  async close(): Promise<void> {}

  /** Nothing can be taken back. */
  async abort(): Promise<void> {}
}
