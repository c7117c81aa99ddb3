import { recoverDirectory } from "../bytes/directory.js";
import type { FileStore } from "../bytes/file-store.js";
import { parentPath } from "../bytes/path.js";
import { isCairnError, NotFoundError, UnsupportedError } from "../errors.js";
import { checkpointFormat } from "./checkpoint/index.js";
import { elasticdlFormat } from "./elasticdl/index.js";
import type { Detection, Format } from "./format.js";
import { riegeliFormat } from "./riegeli/index.js";
import { safetensorsFormat } from "./safetensors/index.js";
import { savedModelFormat } from "./saved-model/index.js";
import { tfjsFormat } from "./tfjs/index.js";

/** All formats, in the order in which a path is offered to them: those that know their files surely come first. */
export const FORMATS: readonly Format[] = [
  riegeliFormat,
  safetensorsFormat,
  elasticdlFormat,
  tfjsFormat,
  savedModelFormat,
  checkpointFormat,
];

/** A path, and the format that knows it. */
export interface Detected {
  readonly format: Format;
  readonly detection: Detection;
}

/**
 * Finds the format of a path from what is there.
 * @throws {@link NotFoundError} (`not-found`), {@link UnsupportedError} (`unknown-format`)
 */
export async function detectFormat(
  files: FileStore,
  path: string,
  formats: readonly Format[] = FORMATS,
): Promise<Detected> {
  for (const format of formats) {
    const detection = await format.detect(files, path).catch((error: unknown) => {
      // A web server cannot list a directory, so that a format that looks for names there cannot be told.
      if (!isCairnError(error, "unsupported-operation")) throw error;
    });
    if (detection !== undefined) return { format, detection };
  }
  if ((await files.stat(path)) === undefined) {
    // A crash may have come while another directory was about to take its place.
    for (const one of [path, parentPath(path)]) await recoverDirectory(files, one);
    if ((await files.stat(path)) !== undefined) return detectFormat(files, path, formats);
    // Opening it may tell more, such as that it may not be read.
    const source = await files.open(path).catch((error: unknown) => {
      if (!isCairnError(error, "not-found")) throw error;
    });
    await source?.close();
    throw new NotFoundError("not-found", "no such file, directory or prefix", { file: path });
  }
  throw new UnsupportedError("unknown-format", "nothing here that cairn knows", {
    file: path,
    hint: "cairn reads SavedModel directories, .pb, .cpb and .pbtxt protos, safetensors, TF.js models, TensorFlow and training checkpoints, and Riegeli/records files.",
  });
}
