/** A box of a tensor, cut from the front, with what its elements weigh. Numbers of dimensions, outermost first. */
export interface SliceBox {
  /** Where it starts in the tensor that is cut. */
  readonly start: number[];
  readonly size: number[];
}

/** A part to be cut from the front of a box: how many of which dimension. */
export interface SliceCut {
  readonly dimension: number;
  readonly count: number;
}

/**
 * The slab to cut from the front of a box so that it fits into `room` bytes: along the dimension that takes the fewest
 * parts, all about equal; the first of them when several do. Undefined when no slab fits.
 * Source: tensorflow/python/checkpoint/sharding/sharding_policies.py, MaxShardSizePolicy._get_next_partition.
 */
export function planCut({ size }: SliceBox, elementBytes: number, room: number): SliceCut | undefined {
  const elements = size.reduce((product, count) => product * count, 1);
  let best: SliceCut | undefined;
  let bestParts = Number.POSITIVE_INFINITY;
  for (const [dimension, count] of size.entries()) {
    const slabs = Math.floor(room / ((elements / count) * elementBytes));
    const parts = slabs === 0 ? Number.POSITIVE_INFINITY : Math.ceil(count / slabs);
    if (parts >= bestParts || (dimension > 0 && (elements * elementBytes) / parts > room)) continue;
    bestParts = parts;
    best = { dimension, count: Math.ceil(count / parts) };
  }
  return best;
}

/** The longest dimension, whose slabs are the smallest. */
export function longestDimension({ size }: SliceBox): number {
  return size.indexOf(Math.max(...size));
}

/** Takes the front of a box away from it and gives that as a box of its own. */
export function cutFront(box: SliceBox, { dimension, count }: SliceCut): SliceBox {
  const front = { start: [...box.start], size: [...box.size] };
  front.size[dimension] = count;
  box.start[dimension] = (box.start[dimension] as number) + count;
  box.size[dimension] = (box.size[dimension] as number) - count;
  return front;
}
