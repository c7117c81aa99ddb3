import { UsageError } from "../errors.js";
import { walkObjects } from "./live-graph.js";
import type { Restoration } from "./restoration.js";
import type { Trackable } from "./trackable.js";

/** Names shown in the message of an assertion. */
const SHOWN_NAMES = 10;

/**
 * What became of a restore. Each assertion gives the status back when it holds. They ask for the state of the moment, so
 * that one that fails may hold after more objects were attached.
 */
export class LoadStatus {
  private readonly restoration: Restoration;
  private readonly root: Trackable;

  /** Made by `Checkpoint.restore`. */
  constructor(restoration: Restoration, root: Trackable) {
    this.restoration = restoration;
    this.root = root;
  }

  /** Keys of the checkpoint that no object of the program has taken, in the order of the object graph. */
  get unmatchedKeys(): readonly string[] {
    const { graph, bound, unusedKeys, doubles } = this.restoration;
    const keys = graph.flatMap(({ attributes }, id) =>
      bound.has(id) && !doubles.includes(id) ? [] : attributes.map(({ checkpointKey }) => checkpointKey),
    );
    return [...keys, ...unusedKeys];
  }

  /** Paths of objects of the program that have tensors of which the checkpoint has not all. */
  get unmatchedObjects(): readonly string[] {
    return walkObjects(this.root)
      .nodes.filter(
        ({ object, tensors }) =>
          tensors.some((tensor) => !tensor.isUnlisted) && !this.restoration.isFilled(object, tensors),
      )
      .map(({ path }) => path)
      .filter((path) => path !== "save_counter");
  }

  /**
   * Makes sure that every value of the checkpoint has found its object, and every object its values. A `save_counter`
   * that only one of them has is let pass.
   * @throws {@link UsageError} (`not-consumed`)
   */
  assertConsumed(): this {
    this.assertExistingObjectsMatched();
    const keys = this.unmatchedKeys.filter((key) => !key.startsWith("save_counter/"));
    if (keys.length > 0) this.fail("values of the checkpoint have no object", keys);
    const savers = this.restoration.graph.flatMap(({ registeredSaver }) => registeredSaver?.objectName ?? []);
    if (savers.length > 0) this.fail("objects of the checkpoint were written by a saver of their own", savers);
    return this;
  }

  /** Makes sure that every object of the program has got its values. @throws {@link UsageError} (`not-consumed`) */
  assertExistingObjectsMatched(): this {
    const paths = this.unmatchedObjects;
    if (paths.length > 0) this.fail("objects of the program have no value in the checkpoint", paths);
    return this;
  }

  /** Makes sure that something beside the root was matched. @throws {@link UsageError} (`not-consumed`) */
  assertNontrivialMatch(): this {
    if (this.restoration.bound.size <= 1) {
      this.fail(
        "nothing but the root was matched",
        walkObjects(this.root)
          .nodes.slice(1)
          .map(({ path }) => path),
      );
    }
    return this;
  }

  /** Says that what was not matched is meant to be. */
  expectPartial(): this {
    return this;
  }

  private fail(what: string, names: readonly string[]): never {
    const shown = names.slice(0, SHOWN_NAMES).map((name) => (name === "" ? "(root)" : name));
    const more = names.length - shown.length;
    throw new UsageError("not-consumed", `${names.length} ${what}`, {
      file: this.restoration.tensors.path,
      actual: shown.join(", ") + (more > 0 ? ` and ${more} more` : ""),
      hint: "Build the same objects under the same names, or accept a partial restore.",
    });
  }
}
