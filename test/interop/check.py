"""Lets TensorFlow read what cairn wrote. Takes a JSON list of cases, prints one JSON result a line."""

import hashlib
import json
import os
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import safetensors
import checkpoint_files
import restore_checkpoints
import saved_models
import tensorflow as tf
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import tensor_util

from elasticdl import elasticdl
from parameter_servers import parameter_servers

TYPES = {"tensorflow.SavedModel": saved_model_pb2.SavedModel, "tensorflow.GraphDef": graph_pb2.GraphDef}


def parse(type_name, path):
    message = TYPES[type_name]()
    with open(path, "rb") as file:
        message.ParseFromString(file.read())
    return message


def merges(case):
    """TensorFlow's merger makes the same message of a .cpb as it was split from."""
    out = case["prefix"] + ".tensorflow"
    run = subprocess.run([case["merger"], case["type"], case["prefix"], out], capture_output=True, text=True)
    if run.returncode != 0:
        return f"exit {run.returncode}: {run.stderr.strip()[-300:]}"
    merged = parse(case["type"], out).SerializeToString(deterministic=True)
    source = parse(case["type"], case["source"]).SerializeToString(deterministic=True)
    return None if merged == source else "TensorFlow merges it to another message"


def loads(case):
    """TensorFlow loads a SavedModel directory that cairn wrote, and a signature runs."""
    model = tf.saved_model.load(case["path"])
    names = sorted(model.signatures)
    return None if names == sorted(case["signatures"]) else f"signatures {names}"


def constant_bytes(array):
    if array.dtype == object:
        flat = [value if isinstance(value, bytes) else value.encode() for value in array.reshape(-1)]
        return b"".join(len(value).to_bytes(8, "little") + value for value in flat)
    return np.ascontiguousarray(array).tobytes()


def constants(case):
    """The constants that cairn lists have TensorFlow's values."""
    model = parse("tensorflow.SavedModel", case["source"])
    found = {}

    def add(prefix, nodes):
        for node in nodes:
            if node.op != "Const":
                continue
            tensor = node.attr["value"].tensor
            array = tensor_util.MakeNdarray(tensor)
            digest = hashlib.sha256(constant_bytes(array)).hexdigest()
            found[prefix + node.name] = [list(array.shape), digest]

    graph = model.meta_graphs[0].graph_def
    add("", graph.node)
    for function in graph.library.function:
        add(function.signature.name + ":", function.node_def)
    listed = {tensor["key"]: [tensor["shape"], tensor["sha256"]] for tensor in case["tensors"]}
    if listed == found:
        return None
    different = sorted(key for key in set(found) | set(listed) if found.get(key) != listed.get(key))
    return f"different: {different[:5]}"


def npy(case):
    """NumPy reads a .npy that cairn wrote."""
    array = np.load(case["path"])
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    if list(array.shape) != case["shape"] or digest != case["sha256"]:
        return f"{array.dtype} {array.shape} {digest}"
    return None


def safetensors_files(path):
    """The files of a model, as loaders find them."""
    if os.path.isfile(path):
        return [path], None
    index_path = os.path.join(path, "model.safetensors.index.json")
    if not os.path.exists(index_path):
        return [os.path.join(path, "model.safetensors")], None
    with open(index_path, encoding="utf-8") as file:
        index = json.load(file)
    return [os.path.join(path, name) for name in sorted(set(index["weight_map"].values()))], index


def safetensors_model(case):
    """The reference library reads the tensors and texts that cairn wrote, and the index is as the hub has it."""
    paths, index = safetensors_files(case["path"])
    found, metadata, total = {}, {}, 0
    for path in paths:
        with open(path, "rb") as file:
            raw = file.read()
        for name, tensor in safetensors.deserialize(raw):
            digest = hashlib.sha256(tensor["data"]).hexdigest()
            found[name] = {"dtype": tensor["dtype"], "shape": tensor["shape"], "sha256": digest}
            total += len(tensor["data"])
            if index is not None and index["weight_map"].get(name) != os.path.basename(path):
                return f"the index has {name} elsewhere"
        with safetensors.safe_open(path, framework="np") as opened:
            metadata.update(opened.metadata() or {})
    if index is not None:
        if index["metadata"].pop("total_size") != total or len(index["weight_map"]) != len(found):
            return "total_size or weight_map are not those of the files"
        metadata.update(index["metadata"])
    if found != case["tensors"]:
        return f"tensors differ: {sorted(found)}"
    return None if metadata == case["metadata"] else f"metadata {metadata}"


KINDS = {
    "merges": merges,
    "loads": loads,
    "constants": constants,
    "npy": npy,
    "elasticdl": elasticdl,
    "parameter_servers": parameter_servers,
    "safetensors": safetensors_model,
    **restore_checkpoints.KINDS,
    **checkpoint_files.KINDS,
    **saved_models.KINDS,
}

with open(sys.argv[1]) as file:
    for case in json.load(file):
        try:
            problem = KINDS[case["kind"]](case)
        except Exception as error:  # a case that fails must not hide the others
            problem = f"{type(error).__name__}: {error}"
        print(json.dumps({"name": case["name"], "problem": problem}), flush=True)
