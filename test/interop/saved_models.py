"""Lets TensorFlow load SavedModels whose variables cairn wrote; see check.py."""

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import fingerprint_pb2
from tensorflow.python.saved_model.pywrap_saved_model import fingerprinting


def inputs_of(signature):
    rng = np.random.default_rng(7)
    _, specs = signature.structured_input_signature
    inputs = {}
    for name, spec in specs.items():
        shape = [3 if size is None else size for size in (spec.shape or [])]
        inputs[name] = tf.cast(tf.constant(rng.normal(size=shape) * 3, tf.float32), spec.dtype)
    return inputs


def wrong_fingerprint(path):
    """Whether fingerprint.pb is another than TensorFlow would write."""
    wanted = fingerprint_pb2.FingerprintDef.FromString(fingerprinting.CreateFingerprintDef(path))
    with open(path + "/fingerprint.pb", "rb") as file:
        found = fingerprint_pb2.FingerprintDef.FromString(file.read())
    return None if found.checkpoint_hash == wanted.checkpoint_hash else f"fingerprint {found}, not {wanted}"


def same_model(case):
    """The model gives the same outputs as the one that it was made of."""
    found, wanted = (tf.saved_model.load(case[side]) for side in ("path", "source"))
    names = sorted(wanted.signatures)
    if sorted(found.signatures) != names or not names:
        return f"signatures {sorted(found.signatures)}"
    for name in names:
        inputs = inputs_of(wanted.signatures[name])
        outputs = [model.signatures[name](**inputs) for model in (found, wanted)]
        for key in outputs[1]:
            if not np.array_equal(outputs[0][key].numpy(), outputs[1][key].numpy()):
                return f"{name}: {key} differs"
    return wrong_fingerprint(case["path"])


def other_variables(case):
    """Each variable has its value where the loaded objects have it, and signatures run."""
    model = tf.saved_model.load(case["path"])
    for path, values in case["values"].items():
        at = model
        for step in path.split("/"):
            at = at[step] if isinstance(at, dict) else at[int(step)] if step.isdigit() else getattr(at, step)
        if not np.array_equal(at.numpy().reshape(-1), np.float32(values)):
            return f"{path}: {at.numpy()}"
    for signature in model.signatures.values():
        signature(**inputs_of(signature))
    return wrong_fingerprint(case["path"])


KINDS = {"same_model": same_model, "other_variables": other_variables}
