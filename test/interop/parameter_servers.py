"""A worker as ElasticDL's, with Python's grpcio, trains on cairn's parameter servers; Keras does the same beside it."""

import json
import os
import signal
import subprocess

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, empty_pb2, message_factory
from tensorflow.core.framework import tensor_pb2

from elasticdl import INT32, INT64, MESSAGE, REPEATED, STRING, Model, field, map_field, string_to_id, to_array

BOOL, FLOAT = 8, 2
LIMITS = [("grpc.max_send_message_length", 2**28), ("grpc.max_receive_message_length", 2**28)]
OPTIMIZERS = {
    "SGD": lambda: tf.keras.optimizers.SGD(0.1),
    "momentum": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: tf.keras.optimizers.Adam(0.01),
    "amsgrad": lambda: tf.keras.optimizers.Adam(0.01, amsgrad=True),
    "Adagrad": lambda: tf.keras.optimizers.Adagrad(0.1),
}


def messages():
    """The messages of elasticdl.proto beside Model."""
    file = descriptor_pb2.FileDescriptorProto(name="elasticdl_calls.proto", package="proto", syntax="proto3")
    file.dependency.extend(["elasticdl.proto", "tensorflow/core/framework/tensor.proto"])
    pull = file.message_type.add(name="PullDenseParametersRequest")
    field(pull, "version", 1, INT32)
    pulled = file.message_type.add(name="PullDenseParametersResponse")
    field(pulled, "initialized", 1, BOOL)
    field(pulled, "version", 2, INT32)
    map_field(pulled, "dense_parameters", 3, "DenseEntry", ".tensorflow.TensorProto")
    vectors = file.message_type.add(name="PullEmbeddingVectorRequest")
    field(vectors, "name", 1, STRING)
    field(vectors, "ids", 2, INT64, REPEATED)
    push = file.message_type.add(name="PushGradientsRequest")
    field(push, "gradients", 1, MESSAGE, type_name=".proto.Model")
    field(push, "learning_rate", 2, FLOAT)
    pushed = file.message_type.add(name="PushGradientsResponse")
    field(pushed, "accepted", 1, BOOL)
    field(pushed, "version", 2, INT32)
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {one.name: message_factory.GetMessageClass(pool.FindMessageTypeByName("proto." + one.name)) for one in file.message_type}


MESSAGES = messages()
ANSWERS = {
    "push_model": empty_pb2.Empty,
    "push_embedding_table_infos": empty_pb2.Empty,
    "pull_dense_parameters": MESSAGES["PullDenseParametersResponse"],
    "pull_embedding_vectors": tensor_pb2.TensorProto,
    "push_gradients": MESSAGES["PushGradientsResponse"],
}


class Server:
    """One `cairn ps`, and a channel to it."""

    def __init__(self, case, ps_id, count):
        flags = ["--ps-id", str(ps_id), "--num-ps", str(count), "--opt-type", case["type"], "--opt-args", case["args"]]
        saves = ["--checkpoint-dir", case["path"], "--layout", "elasticdl", "--save-on-exit"]
        command = [case["node"], case["cli"], "ps", "--port", "0", "--json", "--quiet", "--use-async", *flags, *saves]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("the server ended")
            text += line
        self.channel = grpc.insecure_channel(json.loads(text)["address"], options=LIMITS)

    def call(self, method, request):
        serialize = type(request).SerializeToString
        call = self.channel.unary_unary(f"/proto.Pserver/{method}", serialize, ANSWERS[method].FromString)
        return call(request, timeout=60)

    def stop(self):
        self.channel.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def fill(tensor, array):
    tensor.dtype = 1
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = np.ascontiguousarray(array, np.float32).tobytes()


def initialize(servers, weights, dim):
    infos = Model()
    infos.embedding_table_infos.add(name="e", dim=dim, initializer="ones", dtype=1)
    for server in servers:
        server.call("push_embedding_table_infos", infos)
        pulled = server.call("pull_dense_parameters", MESSAGES["PullDenseParametersRequest"](version=-1))
        assert not pulled.initialized
    for ps_id, server in enumerate(servers):
        model = Model()
        for name, value in weights.items():
            if string_to_id(name, len(servers)) == ps_id:
                fill(model.dense_parameters[name], value)
        server.call("push_model", model)


def push(servers, step, dense, ids, rows):
    count = len(servers)
    for ps_id, server in enumerate(servers):
        request = MESSAGES["PushGradientsRequest"]()
        request.gradients.version = step
        for name, value in dense.items():
            if string_to_id(name, count) == ps_id:
                fill(request.gradients.dense_parameters[name], value)
        own = [at for at, one in enumerate(ids) if one % count == ps_id]
        if own:
            slices = request.gradients.embedding_tables["e"]
            slices.ids.extend(ids[at] for at in own)
            fill(slices.concat_tensors, rows[own])
        answer = server.call("push_gradients", request)
        assert answer.accepted and answer.version == step + 1, answer


def pull(servers, ids):
    dense, rows = {}, np.zeros((len(ids), 0), np.float32)
    for ps_id, server in enumerate(servers):
        pulled = server.call("pull_dense_parameters", MESSAGES["PullDenseParametersRequest"](version=-1))
        dense.update({name: to_array(value) for name, value in pulled.dense_parameters.items()})
        own = [at for at, one in enumerate(ids) if one % len(servers) == ps_id]
        request = MESSAGES["PullEmbeddingVectorRequest"](name="e", ids=[ids[at] for at in own])
        values = to_array(server.call("pull_embedding_vectors", request))
        if rows.shape[1] == 0:
            rows = np.zeros((len(ids), values.shape[1]), np.float32)
        rows[own] = values
    return dense, rows


def refuses(server):
    """What is wrong is refused, in words."""
    request = MESSAGES["PushGradientsRequest"]()
    fill(request.gradients.dense_parameters["nope"], np.zeros(1))
    try:
        server.call("push_gradients", request)
    except grpc.RpcError as error:
        return "Gradient nope is not in Parameters" in error.details()
    return False


def train(servers, case):
    random = np.random.default_rng(1)
    ids = [3, -4, 2**40, 7, 5]
    shapes = {"dense/kernel:0": (30, 7), "dense/bias:0": (7,), "变量": (), "large": (3_000_000,)}
    weights = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    initialize(servers, weights, 4)
    variables = {name: tf.Variable(value) for name, value in weights.items()}
    table = tf.Variable(np.ones((len(ids), 4), np.float32))
    optimizer = OPTIMIZERS[case["optimizer"]]()
    for step in range(4):
        dense = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        rows = random.normal(size=(len(ids), 4)).astype(np.float32)
        push(servers, step, dense, ids, rows)
        optimizer.apply_gradients([(dense[name], variables[name]) for name in shapes] + [(rows, table)])
    found, found_rows = pull(servers, ids)
    for name, variable in variables.items():
        if not np.allclose(found[name], variable.numpy(), rtol=1e-5, atol=2e-6):
            return f"{name} differs from Keras by {np.abs(found[name] - variable.numpy()).max()}"
    if not np.allclose(found_rows, table.numpy(), rtol=1e-5, atol=2e-6):
        return f"rows differ from Keras by {np.abs(found_rows - table.numpy()).max()}"
    return None if refuses(servers[0]) else "a gradient of nothing was taken"


def parameter_servers(case):
    """Keras and two servers train alike, and what these saved on their way out is a version that ElasticDL reads."""
    servers = [Server(case, ps_id, 2) for ps_id in range(2)]
    try:
        problem = train(servers, case)
    finally:
        codes = [server.stop() for server in servers]
    if problem or codes != [0, 0]:
        return problem or f"exit codes {codes}"
    directory = os.path.join(case["path"], "version-4")
    names = sorted(os.listdir(directory))
    if names != ["variables-0-of-2.ckpt", "variables-1-of-2.ckpt"]:
        return f"saved {names}"
    saved = {}
    for name in names:
        model = Model()
        with open(os.path.join(directory, name), "rb") as file:
            model.ParseFromString(file.read())
        if model.version != 4 or to_array(model.embedding_tables["e"].concat_tensors).shape[1] != 4:
            return f"{name} holds something else"
        saved.update(model.dense_parameters)
    return None if len(saved) == 4 else f"saved {sorted(saved)}"
