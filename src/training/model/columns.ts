import { UsageError } from "../../errors.js";

/** Numbers of a column; ids beyond 2^53 are bigints. */
export type ColumnValues = readonly number[] | Float32Array | Int32Array | Uint8Array | BigInt64Array | Float64Array;

/** A column of records: one number each, or as many as `rowShape` says. */
export interface Column {
  /** Row by row. */
  readonly values: ColumnValues;
  /** The shape of one record's numbers; `[]`, as unless said, is one number. */
  readonly rowShape?: readonly number[] | undefined;
}

/** Columns by name. A bare list is a column of one number a record. */
export type Columns = Readonly<Record<string, Column | ColumnValues>>;

/** Numbers of some records: row-major, the first dimension is the record. */
export interface Table {
  readonly values: ColumnValues;
  readonly shape: readonly number[];
}

/** A column of `count` records, checked. @throws {@link UsageError} (`usage`) when there are more or fewer numbers */
export function toTable(name: string, column: Column | ColumnValues, count: number): Table {
  const { values, rowShape = [] } = "values" in column && !isList(column) ? (column as Column) : bare(column);
  const width = rowShape.reduce((product, size) => product * size, 1);
  if (!isList(values) || values.length !== count * width) {
    throw new UsageError(
      "usage",
      `numbers of column "${name}" for ${count} records of shape [${rowShape.join(", ")}]`,
      {
        expected: count * width,
        actual: isList(values) ? values.length : typeof values,
      },
    );
  }
  return { values, shape: [count, ...rowShape] };
}

function bare(values: Column | ColumnValues): Column {
  return { values: values as ColumnValues };
}

function isList(value: unknown): value is ColumnValues {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView));
}

/** Some rows of a table, in this order. */
export function takeRows({ values, shape }: Table, rows: readonly number[]): Table {
  const width = shape.slice(1).reduce((product, size) => product * size, 1);
  const taken = makeLike(values, rows.length * width);
  rows.forEach((row, i) => {
    for (let k = 0; k < width; k++) (taken as number[])[i * width + k] = values[row * width + k] as number;
  });
  return { values: taken, shape: [rows.length, ...shape.slice(1)] };
}

function makeLike(values: ColumnValues, length: number): ColumnValues {
  if (Array.isArray(values)) return new Array<number>(length);
  return new (values.constructor as new (length: number) => Float32Array)(length);
}
