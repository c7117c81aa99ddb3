import { ByteCursor } from "../../bytes/byte-cursor.js";
import { crc32c, maskCrc, prepareCrc32c, unmaskCrc } from "../../codecs/crc32c.js";
import { CorruptionError } from "../../errors.js";
import { checksumError, type TensorPlace } from "./checked-source.js";

/**
 * Checks the stored bytes of a variant tensor, which are given out as they are, and gives their checksum, masked. Each
 * element is a varint length, a VariantTensorDataProto, and the masked checksum of all before it, lengths as uint64.
 * Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc, WriteVariantTensor.
 * @throws CorruptionError (`tensor-checksum`, `tensor-data`)
 */
export async function checksumOfVariants(bytes: Uint8Array, elementCount: number, place: TensorPlace): Promise<number> {
  await prepareCrc32c(bytes.length);
  const cursor = new ByteCursor(bytes, place.file, place.offset);
  const length = new Uint8Array(8);
  let crc = 0;
  for (let i = 0; i < elementCount; i++) {
    const size = cursor.readVarint("tensor-data");
    new DataView(length.buffer).setBigUint64(0, BigInt(size), true);
    crc = crc32c(length, crc);
    crc = crc32c(cursor.readBytes(size), crc);
    const stored = cursor.readBytes(4);
    const expected = unmaskCrc(new DataView(stored.buffer, stored.byteOffset).getUint32(0, true));
    if (expected !== crc) throw checksumError(place, expected, crc);
    crc = crc32c(stored, crc);
  }
  if (cursor.left > 0) {
    throw new CorruptionError("tensor-data", `bytes behind the last variant of "${place.key}"`, {
      file: place.file,
      offset: cursor.offset,
    });
  }
  return maskCrc(crc);
}
