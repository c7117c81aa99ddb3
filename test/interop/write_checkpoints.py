"""Lets TensorFlow write checkpoints that TF.js restores through cairn. Takes a directory; writes expected.json there."""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf
from structures import Net, keras_model_of, keras_optimizer_of, optimizer_of, train_net, values_of, weights_of

work = sys.argv[1]
expected = {"slots": {}, "models": {}, "keras": {}}
OPTIMIZERS = ["sgd", "momentum", "nesterov", "adam", "adamax", "adagrad", "adadelta", "rmsprop", "rmsprop centered"]

for name in OPTIMIZERS:
    net, optimizer = Net(), optimizer_of(name)
    train_net(net, optimizer, 3)
    step = tf.Variable(3, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(net=net, optimizer=optimizer, step=step)
    path = checkpoint.save(os.path.join(work, f"slots {name}"))
    expected["slots"][name] = {"path": path, "values": values_of(net, optimizer)}

for name in ["sequential", "functional", "nested", "convolutions", "recurrent"]:
    model = keras_model_of(name, tf.keras.layers)
    path = tf.train.Checkpoint(model=model).write(os.path.join(work, f"model {name}"))
    expected["models"][name] = {"path": path, "weights": weights_of(model)}

for name in ["sgd", "adam", "adamax", "adagrad", "adadelta", "rmsprop", "rmsprop centered"]:
    model = keras_model_of("compiled", tf.keras.layers)
    model.compile(optimizer=keras_optimizer_of(name), loss="mse")
    x, y = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4), np.ones([8, 1], np.float32)
    model.fit(x, y, epochs=3, shuffle=False, verbose=0)
    path = tf.train.Checkpoint(model=model).save(os.path.join(work, f"keras {name}"))
    entry = {"path": path, "weights": weights_of(model), "x": x.tolist()}
    entry["predictions"] = model.predict(x, verbose=0).reshape(-1).tolist()
    entry["iterations"] = int(model.optimizer.iterations.numpy())
    model.fit(x, y, epochs=1, shuffle=False, verbose=0)
    entry["next"] = weights_of(model)
    expected["keras"][name] = entry

with open(os.path.join(work, "expected.json"), "w") as file:
    json.dump(expected, file)
