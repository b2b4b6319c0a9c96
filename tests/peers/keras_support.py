"""What the tests of Keras with both backends share: a model, saved as another program would save it, and its losses."""
import os

import numpy as np

RATE, MOMENTUM = 0.05, 0.9


def use_backend(name):
    """Keras with a backend; a test program has one."""
    os.environ["KERAS_BACKEND"] = name
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import keras
    keras.config.disable_traceback_filtering()
    return keras


def network(keras, extra=()):
    keras.utils.set_random_seed(0)
    layers = keras.layers
    return keras.Sequential([
        layers.Input((8, 8, 2)), layers.Conv2D(8, 3, padding="same", use_bias=False), *extra, layers.ReLU(),
        layers.MaxPooling2D(), layers.Reshape((16, 8)), layers.LayerNormalization(), layers.Flatten(),
        layers.Dense(16, activation="gelu", kernel_regularizer=keras.regularizers.L2(1e-3)), layers.Dense(5)])


def batches(count, samples=8):
    rng = np.random.default_rng(3)
    return [(rng.normal(size=(samples, 8, 8, 2)).astype("f4"), rng.integers(0, 5, samples).astype("i4"))
            for _ in range(count)]


def loss_of(keras):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def trained_by_keras(keras, model, steps):
    """Losses of Keras' own training with momentum."""
    model.compile(optimizer=keras.optimizers.SGD(RATE, momentum=MOMENTUM), loss=loss_of(keras))
    return [float(model.train_on_batch(*batch)) for batch in batches(steps)]
