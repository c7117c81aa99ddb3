"""Reads shards as ElasticDL does: its Model, made of TensorFlow's TensorProto, its partition functions, its finder."""

import hashlib
import os

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2, types_pb2  # noqa: F401  (brings their files into the pool)

INT32, INT64, STRING, MESSAGE, ENUM = 5, 3, 9, 11, 14
OPTIONAL, REPEATED = 1, 3


def field(message, name, number, kind, label=OPTIONAL, type_name=None):
    one = message.field.add(name=name, number=number, type=kind, label=label)
    if type_name:
        one.type_name = type_name


def map_field(message, name, number, entry, value):
    nested = message.nested_type.add(name=entry)
    nested.options.map_entry = True
    field(nested, "key", 1, STRING)
    field(nested, "value", 2, MESSAGE, type_name=value)
    field(message, name, number, MESSAGE, REPEATED, f".proto.{message.name}.{entry}")


def model_class():
    file = descriptor_pb2.FileDescriptorProto(name="elasticdl.proto", package="proto", syntax="proto3")
    file.dependency.append("tensorflow/core/framework/tensor.proto")
    file.dependency.append("tensorflow/core/framework/types.proto")
    info = file.message_type.add(name="EmbeddingTableInfo")
    field(info, "name", 1, STRING)
    field(info, "dim", 2, INT64)
    field(info, "initializer", 3, STRING)
    field(info, "dtype", 4, ENUM, type_name=".tensorflow.DataType")
    slices = file.message_type.add(name="IndexedSlicesProto")
    field(slices, "concat_tensors", 1, MESSAGE, type_name=".tensorflow.TensorProto")
    field(slices, "ids", 2, INT64, REPEATED)
    model = file.message_type.add(name="Model")
    field(model, "version", 1, INT32)
    field(model, "embedding_table_infos", 2, MESSAGE, REPEATED, ".proto.EmbeddingTableInfo")
    map_field(model, "dense_parameters", 3, "DenseEntry", ".tensorflow.TensorProto")
    map_field(model, "embedding_tables", 4, "TablesEntry", ".proto.IndexedSlicesProto")
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("proto.Model"))


Model = model_class()
# What ElasticDL's pb_to_ndarray knows.
DTYPES = {1: np.float32, 2: np.float64, 3: np.int32, 5: np.int16, 6: np.int8, 9: np.int64, 10: np.bool_}


def to_array(tensor):
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    return np.ndarray(shape=shape, dtype=DTYPES[tensor.dtype], buffer=tensor.tensor_content)


def string_to_id(name, count):
    return int(hashlib.sha256(name.encode("utf-8")).hexdigest(), base=32) % count


def is_valid(directory):
    """ElasticDL's own test of a version: the number of entries is the one that a name tells."""
    names = os.listdir(directory)
    return bool(names) and len(names) == int(names[0].split(".")[0].split("-")[-1])


def elasticdl(case):
    """Shards that cairn wrote give ElasticDL the model, each part where its servers look for it."""
    dense, tables, dims = {}, {}, {}
    names = os.listdir(case["path"])
    if not is_valid(case["path"]):
        return f"not valid: {names}"
    for name in names:
        ps_id, _, ps_num = name.split(".")[0].split("-")[1:]
        model = Model()
        with open(os.path.join(case["path"], name), "rb") as file:
            model.ParseFromString(file.read())
        if model.version != case["version"]:
            return f"version {model.version}"
        for info in model.embedding_table_infos:
            dims[info.name] = info.dim
        for key, tensor in model.dense_parameters.items():
            if string_to_id(key, int(ps_num)) != int(ps_id):
                return f"{key} in {name}"
            dense[key] = to_array(tensor)
        for key, slices in model.embedding_tables.items():
            rows = to_array(slices.concat_tensors)
            if len(rows) != len(slices.ids):
                return f"{len(rows)} rows, {len(slices.ids)} ids of {key} in {name}"
            for row_id, row in zip(slices.ids, rows):
                if row_id % int(ps_num) != int(ps_id):
                    return f"row {row_id} of {key} in {name}"
                tables.setdefault(key, {})[row_id] = row
    found = {key: [list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()] for key, array in dense.items()}
    wanted = {key: [one["shape"], one["sha256"]] for key, one in case["dense"].items()}
    if found != wanted:
        return f"variables: {sorted(set(found) ^ set(wanted))}"
    for key, table in case["tables"].items():
        rows = tables.get(key, {})
        ids = sorted(rows)
        digest = hashlib.sha256(b"".join(rows[row_id].tobytes() for row_id in ids)).hexdigest()
        if [str(row_id) for row_id in ids] != table["ids"] or digest != table["rows_sha256"] or dims[key] != table["dim"]:
            return f"table {key}"
    return None
