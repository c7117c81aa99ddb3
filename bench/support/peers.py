"""One job of safetensors or TensorFlow in a process of its own; prints what the work took, as checkpoint-child.mjs does.

python peers.py LIBRARY JOB PATH COUNT BYTES
"""

import json
import os
import re
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
library, job, path, count, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])

import numpy as np

keys = [f"layer_{i:05d}/kernel" for i in range(count)]
elements = int(size / count) // 64 * 16


def make_arrays():
    memory = (np.arange(elements * count, dtype=np.int32) % 1021).astype(np.float32)
    memory *= np.float32(0.37)
    return [memory[i * elements : (i + 1) * elements] for i in range(count)]


def resident_mb(field):
    try:
        with open("/proc/self/status", encoding="utf8") as status:
            return int(re.search(field + r":\s+(\d+)", status.read()).group(1)) / 1024
    except OSError:
        return float("nan")


def safetensors_job():
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file

    if job == "save":
        tensors = dict(zip(keys, make_arrays()))
        return lambda: save_file(tensors, path)
    if job == "restore":
        return lambda: load_file(path)

    def one():
        with safe_open(path, "np") as file:
            return file.get_tensor(keys[count // 2])

    return one


def tensorflow_job():
    import tensorflow as tf

    if job == "save":
        tensors = [tf.constant(array) for array in make_arrays()]
        return lambda: tf.raw_ops.SaveV2(prefix=path, tensor_names=keys, shape_and_slices=[""] * count, tensors=tensors)
    if job == "restore":
        return lambda: tf.raw_ops.RestoreV2(
            prefix=path, tensor_names=keys, shape_and_slices=[""] * count, dtypes=[tf.float32] * count
        )
    return lambda: tf.train.load_checkpoint(path).get_tensor(keys[count // 2])


work = {"safetensors": safetensors_job, "tensorflow": tensorflow_job}[library]()
try:
    with open("/proc/self/clear_refs", "w", encoding="utf8") as refs:
        refs.write("5")
except OSError:
    pass
before = resident_mb("VmRSS")
cpu = time.process_time()
start = time.perf_counter()
result = work()
ms = (time.perf_counter() - start) * 1000
took = {"ms": ms, "cpuMs": (time.process_time() - cpu) * 1000, "peakMB": resident_mb("VmHWM") - before}
sys.stderr.write(json.dumps(took))
