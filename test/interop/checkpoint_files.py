"""Reads checkpoints that cairn wrote with TensorFlow's own op, tensor by tensor and slice by slice."""

import hashlib

import numpy as np
import tensorflow as tf


def value_bytes(array):
    if array.dtype == object:
        flat = list(array.reshape(-1))
        return b"".join(len(value).to_bytes(8, "little") + value for value in flat)
    return np.ascontiguousarray(array).tobytes()


def checkpoint_values(case):
    """Every tensor of a checkpoint has the values that cairn says it has."""
    for value in case["values"]:
        key = bytes.fromhex(value["keyHex"])
        (tensor,) = tf.raw_ops.RestoreV2(
            prefix=case["prefix"],
            tensor_names=tf.constant([key]),
            shape_and_slices=tf.constant([value["spec"]]),
            dtypes=[tf.as_dtype(value["dtype"])],
        )
        array = np.asarray(tensor.numpy(), dtype=object) if value["dtype"] == "string" else tensor.numpy()
        if tensor.shape.as_list() != value["shape"]:
            return f"{key} {value['spec']}: shape {tensor.shape}"
        if hashlib.sha256(value_bytes(np.asarray(array))).hexdigest() != value["sha256"]:
            return f"{key} {value['spec']}: other values"
    return None


KINDS = {"checkpoint_values": checkpoint_values}
