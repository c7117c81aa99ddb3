"""The same objects as test/interop/checkpoints.mjs makes with TF.js, in TensorFlow."""

import numpy as np
import tensorflow as tf

SHAPES = {"w": [3, 4], "b": [4], "w2": [4, 1]}


class Net(tf.Module):
    """Three variables, as the class Net there."""

    def __init__(self):
        super().__init__()
        for name, shape in SHAPES.items():
            setattr(self, name, tf.Variable(tf.zeros(shape)))

    @property
    def ordered(self):
        return [getattr(self, name) for name in SHAPES]


class Adamax(tf.Module):
    """TensorFlow has no Adamax with slot variables: an object that keeps them as the optimizers of v1 do."""

    def __init__(self):
        super().__init__()
        self.beta1_power = tf.Variable(0.9)
        # Not by `self._kept =`, which would make the dictionary a child.
        object.__setattr__(self, "_kept", {})

    def get_slot_names(self):
        return ["m", "v"]

    def get_slot(self, variable, name):
        return self._kept.get((variable.ref(), name))

    def _create_or_restore_slot_variable(self, slot_variable_position, slot_name, variable):
        slot_variable_position.restore(self.get_slot(variable, slot_name))

    def apply_gradients(self, pairs):
        for gradient, variable in pairs:
            for name in self.get_slot_names():
                if self.get_slot(variable, name) is None:
                    with tf.init_scope():
                        self._kept[(variable.ref(), name)] = tf.Variable(tf.zeros_like(variable))
            m, v = self.get_slot(variable, "m"), self.get_slot(variable, "v")
            m.assign(0.9 * m + 0.1 * gradient)
            v.assign(tf.maximum(0.999 * v, tf.abs(gradient)))
            variable.assign_sub(0.05 / (1 - self.beta1_power) * m / (v + 1e-7))
        self.beta1_power.assign(self.beta1_power * 0.9)


def optimizer_of(name):
    v1 = tf.compat.v1.train
    return {
        "sgd": lambda: v1.GradientDescentOptimizer(0.1),
        "momentum": lambda: v1.MomentumOptimizer(0.1, 0.9),
        "nesterov": lambda: v1.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        "adam": lambda: v1.AdamOptimizer(0.05),
        "adamax": Adamax,
        "adagrad": lambda: v1.AdagradOptimizer(0.1),
        "adadelta": lambda: v1.AdadeltaOptimizer(0.5, 0.9),
        "rmsprop": lambda: v1.RMSPropOptimizer(0.05, 0.9, 0.5),
        "rmsprop centered": lambda: v1.RMSPropOptimizer(0.05, 0.9, 0.5, centered=True),
    }[name]()


def keras_optimizer_of(name):
    keras = tf.keras.optimizers
    return {
        "sgd": lambda: keras.SGD(0.1),
        "adam": lambda: keras.Adam(0.05),
        "adamax": lambda: keras.Adamax(0.05),
        "adagrad": lambda: keras.Adagrad(0.1),
        "adadelta": lambda: keras.Adadelta(0.5, 0.9),
        "rmsprop": lambda: keras.RMSprop(0.05, 0.9, 0.5),
        "rmsprop centered": lambda: keras.RMSprop(0.05, 0.9, 0.5, centered=True),
    }[name]()


def train_net(net, optimizer, steps, scale=1.0):
    for step in range(steps):
        gradients = [tf.fill(v.shape, scale * (0.1 * (step + 1) + i)) for i, v in enumerate(net.ordered)]
        optimizer.apply_gradients(list(zip(gradients, net.ordered)))


def values_of(net, optimizer):
    """What the structure holds, by names that both sides have."""
    values = {name: getattr(net, name) for name in SHAPES}
    for slot in getattr(optimizer, "get_slot_names", list)():
        for name in SHAPES:
            kept = optimizer.get_slot(getattr(net, name), slot)
            if kept is not None:
                values[f"{slot} of {name}"] = kept
    for name, attribute in [("beta1_power", "_beta1_power"), ("beta2_power", "_beta2_power")]:
        found = getattr(optimizer, name, None)
        if found is None and hasattr(optimizer, "_get_beta_accumulators"):
            found = optimizer._get_beta_accumulators()[0 if name == "beta1_power" else 1]
        if found is not None:
            values[name] = found
    return {name: np.asarray(value).reshape(-1).tolist() for name, value in values.items()}


def weights_of(model):
    """The weights in TF.js's order: those that are trained, then the others."""
    ordered = [*model.trainable_weights, *model.non_trainable_weights]
    return [np.asarray(weight).reshape(-1).tolist() for weight in ordered]


def keras_model_of(name, layers):
    def dense(units, **options):
        return layers.Dense(units, **options)

    keras = tf.keras
    if name == "functional":
        inputs = keras.Input([4])
        return keras.Model(inputs, dense(2)(dense(3)(inputs)))
    shape, parts = {
        "sequential": ([4], lambda: [dense(3), layers.BatchNormalization(), layers.Dropout(0.5), dense(2)]),
        "compiled": ([4], lambda: [dense(3, activation="tanh"), layers.BatchNormalization(), dense(1)]),
        "nested": ([4], lambda: [keras.Sequential([keras.Input([4]), dense(3)]), dense(1)]),
        "convolutions": (
            [12, 12, 1],
            lambda: [
                layers.Conv2D(2, 3),
                layers.DepthwiseConv2D(2),
                layers.SeparableConv2D(2, 2),
                layers.Conv2DTranspose(2, 2),
                layers.PReLU(),
                layers.LayerNormalization(),
                layers.Flatten(),
                dense(1, use_bias=False),
            ],
        ),
        "recurrent": (
            [6],
            lambda: [
                layers.Embedding(5, 3),
                layers.LSTM(2, return_sequences=True),
                layers.GRU(2, return_sequences=True, reset_after=False),
                layers.Bidirectional(layers.LSTM(2, return_sequences=True)),
                layers.TimeDistributed(dense(2)),
                layers.SimpleRNN(2),
            ],
        ),
    }[name]
    return keras.Sequential([keras.Input(shape), *parts()])
