import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isCairnError } from "../../../src/errors.js";
import { TaskQueue } from "../../../src/training/job/task-queue.js";
import { type ScheduleOptions, TaskSchedule } from "../../../src/training/job/task-schedule.js";

const OPTIONS: ScheduleOptions = {
  size: 100,
  minibatchSize: 8,
  batchesPerTask: 3,
  numEpochs: 2,
  shuffle: true,
  seed: 4,
};

const options = fc.record({
  size: fc.integer({ min: 1, max: 300 }),
  minibatchSize: fc.integer({ min: 1, max: 20 }),
  batchesPerTask: fc.integer({ min: 1, max: 5 }),
  numEpochs: fc.integer({ min: 1, max: 3 }),
  shuffle: fc.boolean(),
  seed: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
});

function allTasks(schedule: TaskSchedule) {
  return Array.from({ length: schedule.taskCount }, (_, index) => schedule.task(index));
}

describe("a schedule of tasks", () => {
  it("has every record once in each epoch, and counts batches without a gap", () => {
    fc.assert(
      fc.property(options, (given) => {
        const schedule = new TaskSchedule(given);
        let batches = 0;
        const seen = new Map<number, number[]>();
        for (const { epoch, start, end, batchCount, batchesBefore } of allTasks(schedule)) {
          expect(batchesBefore).toBe(batches);
          expect(batchCount).toBe(Math.ceil((end - start) / given.minibatchSize));
          batches += batchCount;
          const records = seen.get(epoch) ?? [];
          for (let record = start; record < end; record++) records.push(record);
          seen.set(epoch, records);
        }
        expect(seen.size).toBe(given.numEpochs);
        for (const records of seen.values()) {
          expect(records.sort((a, b) => a - b)).toEqual(Array.from({ length: given.size }, (_, i) => i));
        }
      }),
    );
  });

  it("is the same for the same seed, in another order each epoch, and in order without shuffling", () => {
    const starts = (given: ScheduleOptions, epoch: number) =>
      allTasks(new TaskSchedule(given))
        .filter((task) => task.epoch === epoch)
        .map(({ start }) => start);
    expect(starts(OPTIONS, 0)).toEqual(starts(OPTIONS, 0));
    expect(starts(OPTIONS, 0)).not.toEqual(starts(OPTIONS, 1));
    expect(starts({ ...OPTIONS, seed: 5 }, 0)).not.toEqual(starts(OPTIONS, 0));
    expect(starts({ ...OPTIONS, shuffle: false }, 1)).toEqual([0, 24, 48, 72, 96]);
  });

  it("refuses numbers that are no counts", () => {
    expect(() => new TaskSchedule({ ...OPTIONS, minibatchSize: 0 })).toThrow(/minibatchSize/);
    try {
      new TaskSchedule({ ...OPTIONS, size: 1.5 });
      expect.unreachable();
    } catch (error) {
      expect(isCairnError(error, "usage")).toBe(true);
    }
  });
});

describe("a queue of tasks", () => {
  it("does each task once, whatever workers are lost", () => {
    fc.assert(
      fc.property(
        options,
        fc.array(fc.constantFrom("complete", "giveBack", "lose"), { maxLength: 60 }),
        (given, fates) => {
          const queue = new TaskQueue(new TaskSchedule(given));
          const done: number[] = [];
          for (let turn = 0; !queue.isFinished; turn++) {
            const task = queue.take(turn % 3, turn);
            if (task === undefined) {
              queue.recoverStale(() => true);
              continue;
            }
            const fate = fates[turn] ?? "complete";
            if (fate === "giveBack") queue.giveBack(task.index);
            else if (fate === "lose") queue.recoverWorker(turn % 3);
            else {
              queue.complete(task.index, turn);
              done.push(task.index);
            }
          }
          expect(done.sort((a, b) => a - b)).toEqual(Array.from({ length: queue.schedule.taskCount }, (_, i) => i));
        },
      ),
    );
  });

  it("gives out again what was trained since the version that the model went back to", () => {
    const queue = new TaskQueue(new TaskSchedule({ ...OPTIONS, shuffle: false }));
    for (let i = 0; i < 4; i++) queue.complete(queue.take(0, 0)?.index as number, (i + 1) * 3);
    const lost = queue.take(1, 0)?.index;
    queue.rollback(6);
    expect([queue.take(0, 0), queue.take(0, 0), queue.take(0, 0)].map((task) => task?.index)).toEqual([2, 3, lost]);
    expect(queue.doneCount).toBe(2);
  });

  it("knows the version at which the next task begins, after a rollback too", () => {
    const schedule = new TaskSchedule(OPTIONS);
    const queue = new TaskQueue(schedule);
    const batches = (count: number) =>
      Array.from({ length: count }, (_, i) => schedule.task(i).batchCount).reduce((a, b) => a + b, 0);
    for (const index of [0, 1, 2]) {
      expect(queue.startVersion).toBe(batches(index));
      queue.take(0, 0);
      queue.complete(index, batches(index + 1));
    }
    queue.rollback(batches(3) - 1);
    expect(queue.startVersion).toBe(batches(2));
    // What several workers did together makes other versions than its batches.
    queue.alignTo(batches(2) - 3);
    queue.take(0, 0);
    expect(queue.startVersion).toBe(batches(2) - 3);
    const again = new TaskQueue(schedule);
    again.restore(queue.state());
    expect(again.startVersion).toBe(batches(2) - 3);
  });

  it("takes no result of a task that somebody else has got since", () => {
    const queue = new TaskQueue(new TaskSchedule(OPTIONS));
    queue.take(0, 0);
    queue.recoverWorker(0);
    queue.complete(0, 3);
    expect(queue.doneCount).toBe(0);
  });

  it("goes on from its state, with more epochs too", () => {
    const queue = new TaskQueue(new TaskSchedule(OPTIONS));
    for (const index of [0, 1, 2]) expect(queue.take(index, 0)?.index).toBe(index);
    queue.complete(0, 3);
    queue.complete(2, 9);
    const again = new TaskQueue(new TaskSchedule({ ...OPTIONS, numEpochs: 5 }));
    again.restore(JSON.parse(JSON.stringify(queue.state())));
    expect(again.schedule.fingerprint).toBe(queue.schedule.fingerprint);
    expect([again.take(0, 0)?.index, again.take(0, 0)?.index]).toEqual([1, 3]);
  });
});
