"""Lets TensorFlow restore checkpoints that TF.js wrote through cairn; see check.py."""

import numpy as np
import tensorflow as tf
from structures import Net, keras_model_of, keras_optimizer_of, optimizer_of, train_net, values_of, weights_of


def different(found, wanted, tolerance=0.0):
    if len(found) != len(wanted):
        return f"{len(found)} values for {len(wanted)}"
    for name, value in (wanted.items() if isinstance(wanted, dict) else enumerate(wanted)):
        if not np.allclose(np.float32(found[name]), np.float32(value), rtol=tolerance, atol=tolerance):
            return f"{name}: {found[name][:4]} for {value[:4]}"
    return None


def restores_slots(case):
    """tf.train.Checkpoint of the same structure with an optimizer of v1 takes everything, and goes on with it."""
    net, optimizer = Net(), optimizer_of(case["optimizer"])
    train_net(net, optimizer, 1)
    step = tf.Variable(0, dtype=tf.int64)
    checkpoint = tf.train.Checkpoint(net=net, optimizer=optimizer, step=step)
    checkpoint.restore(case["path"]).assert_consumed().assert_existing_objects_matched()
    if int(step) != case["step"] or int(checkpoint.save_counter) != 1:
        return f"step {int(step)}, counter {int(checkpoint.save_counter)}"
    return different(values_of(net, optimizer), case["values"])


def restores_model(case):
    """tf.train.Checkpoint of an equal Keras model takes everything."""
    model = keras_model_of(case["model"], tf.keras.layers)
    tf.train.Checkpoint(model=model).read(case["path"]).assert_consumed()
    return different(weights_of(model), case["weights"])


def restores_keras(case):
    """tf.train.Checkpoint of an equal compiled Keras model takes everything, and its optimizer goes on as TF.js's does."""
    model = keras_model_of("compiled", tf.keras.layers)
    optimizer = keras_optimizer_of(case["optimizer"])
    model.compile(optimizer=optimizer, loss="mse")
    optimizer.build(model.trainable_variables)
    tf.train.Checkpoint(model=model).restore(case["path"]).assert_consumed()
    problem = different(weights_of(model), case["weights"])
    if problem is not None or case["next"] is None:
        return problem
    model.fit(np.array(case["x"], np.float32), np.ones([8, 1], np.float32), epochs=1, shuffle=False, verbose=0)
    return different(weights_of(model), case["next"], 2e-4)


KINDS = {
    "restores_slots": restores_slots,
    "restores_model": restores_model,
    "restores_keras": restores_keras,
}
