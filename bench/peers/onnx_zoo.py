"""Small models of Keras and of JAX (Flax and Equinox), and their exporters. An exporter writes FILE and returns its inputs by name."""

import importlib.util
import os

SAMPLES, WORDS, CLASSES = 2, 97, 10


def drawn(shape, dtype, seed=1):
    """Words, or numbers of a normal distribution."""
    import numpy
    random = numpy.random.default_rng(seed)
    return random.integers(0, WORDS, shape).astype("int32") if "int" in str(dtype) else random.standard_normal(shape).astype("float32")


def keras_models():
    import keras
    from keras import layers

    def attention():
        words = keras.Input((16,), dtype="int32", name="words")
        x = layers.Embedding(WORDS, 32)(words)
        x = layers.LayerNormalization()(x + layers.MultiHeadAttention(4, 8)(x, x))
        return keras.Model(words, layers.Dense(CLASSES, activation="softmax")(layers.GlobalAveragePooling1D()(x)))

    def recurrent(kind):
        words = keras.Input((16,), dtype="int32", name="words")
        return keras.Model(words, layers.Dense(CLASSES)(kind(32)(layers.Embedding(WORDS, 24)(words))))

    def bidirectional():
        words = keras.Input((16,), dtype="int32", name="words")
        x = layers.Bidirectional(layers.LSTM(16, return_sequences=True))(layers.Embedding(WORDS, 24)(words))
        return keras.Model(words, layers.Dense(CLASSES)(layers.GlobalMaxPooling1D()(x)))

    def images():
        pixels = keras.Input((32, 32, 3), name="pixels")
        x = layers.Conv2D(16, 3, padding="same")(pixels)
        x = keras.ops.gelu(layers.BatchNormalization()(x), approximate=True)  # tf2onnx lacks the exact one
        x = layers.MaxPooling2D()(layers.DepthwiseConv2D(3, padding="same")(x))
        x = layers.Activation("swish")(layers.GroupNormalization(4)(x))
        return keras.Model(pixels, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))

    def upsampling():
        pixels = keras.Input((32, 32, 3), name="pixels")
        x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(pixels)
        x = layers.Conv2DTranspose(8, 3, strides=2, padding="same")(layers.SeparableConv2D(8, 3, padding="same")(x))
        x = layers.Concatenate()([layers.UpSampling2D(2, interpolation="bilinear")(layers.AveragePooling2D(2)(x)), x])
        return keras.Model(pixels, layers.Dense(CLASSES)(layers.GlobalMaxPooling2D()(layers.LeakyReLU()(x))))

    def published(name, size, **options):
        return lambda: getattr(keras.applications, name)(input_shape=(size, size, 3), weights=None, classes=CLASSES, **options)

    return {"attention": attention, "lstm": lambda: recurrent(layers.LSTM), "gru": lambda: recurrent(layers.GRU),
            "simple_rnn": lambda: recurrent(layers.SimpleRNN), "bidirectional": bidirectional, "images": images,
            "upsampling": upsampling, "mobilenet_v2": published("MobileNetV2", 64, alpha=0.35),
            "mobilenet_v3": published("MobileNetV3Small", 64, alpha=0.75), "efficientnet_b0": published("EfficientNetB0", 64),
            "resnet50": published("ResNet50", 64), "densenet121": published("DenseNet121", 64),
            "convnext_tiny": published("ConvNeXtTiny", 64)}


def keras_model(name):
    """A model with weights of its own, its input, and values for it."""
    import keras
    keras.utils.set_random_seed(1)
    model = keras_models()[name]()
    given = model.inputs[0]
    value = drawn((SAMPLES, *given.shape[1:]), given.dtype)
    settle(model, value)
    return model, given, value


def export_keras(name, path):
    """By Keras's own export: of the backends tensorflow and jax by tf2onnx, of torch by PyTorch's exporter."""
    import keras
    model, given, value = keras_model(name)
    signature = [keras.InputSpec(shape=value.shape, dtype=given.dtype, name=given.name)]
    model.export(str(path), format="onnx", verbose=False, input_signature=signature)
    return only_input(path, value)


def export_tf2onnx(name, path):
    """By tf2onnx from a function of TensorFlow."""
    import tensorflow
    import tf2onnx
    model, given, value = keras_model(name)
    function = tensorflow.function(lambda x: model(x, training=False))
    tf2onnx.convert.from_function(function, [tensorflow.TensorSpec(value.shape, given.dtype, name=given.name)], opset=18, output_path=str(path))
    return only_input(path, value)


def settle(model, value):
    """Batch norms with the statistics of a batch: otherwise deep networks with new weights give nearly nothing."""
    norms = [layer for layer in model.layers if hasattr(layer, "moving_mean")]
    for layer in norms:
        layer.momentum = 0.0
    if norms:
        model(value, training=True)


def only_input(path, value):
    import onnx
    return {onnx.load(str(path), load_external_data=False).graph.input[0].name: value}


def jax_models():
    """(function, shape, dtype) of each model."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    def perceptron():
        rngs = nnx.Rngs(1)
        return nnx.Sequential(nnx.Linear(24, 48, rngs=rngs), nnx.gelu, nnx.LayerNorm(48, rngs=rngs),
                              nnx.Linear(48, 32, rngs=rngs), jnp.tanh, nnx.Linear(32, CLASSES, rngs=rngs)), (SAMPLES, 24), "float32"

    class Images(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Conv(3, 16, (3, 3), rngs=rngs)
            self.norm = nnx.BatchNorm(16, use_running_average=True, rngs=rngs)
            self.second = nnx.Conv(16, 16, (3, 3), strides=2, feature_group_count=16, rngs=rngs)
            self.groups = nnx.GroupNorm(16, num_groups=4, rngs=rngs)
            self.head = nnx.Linear(16, CLASSES, rngs=rngs)

        def __call__(self, x):
            x = nnx.max_pool(nnx.relu(self.norm(self.first(x))), window_shape=(2, 2), strides=(2, 2))
            return self.head(jnp.mean(nnx.silu(self.groups(self.second(x))), (1, 2)))

    class Words(nnx.Module):
        def __init__(self, rngs, causal=False):
            self.causal = causal
            self.embed = nnx.Embed(WORDS, 32, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(4, 32, decode=False, rngs=rngs)
            self.norm, self.last = nnx.LayerNorm(32, rngs=rngs), nnx.RMSNorm(32, rngs=rngs)
            self.up, self.down = nnx.Linear(32, 64, rngs=rngs), nnx.Linear(64, 32, rngs=rngs)
            self.head = nnx.Linear(32, CLASSES, rngs=rngs)

        def __call__(self, words):
            x = self.embed(words)
            mask = nnx.make_causal_mask(words) if self.causal else None
            x = x + self.attention(self.norm(x), mask=mask)
            x = self.last(x + self.down(nnx.gelu(self.up(x))))
            return self.head(jnp.mean(x, 1))

    def recurrent(cell):
        import equinox
        keys = jax.random.split(jax.random.key(1), 3)
        embed, step = equinox.nn.Embedding(WORDS, 24, key=keys[0]), getattr(equinox.nn, cell)(24, 32, key=keys[1])
        head = equinox.nn.Linear(32, CLASSES, key=keys[2])

        def sample(words):
            first = jnp.zeros(32)
            state = (first, first) if cell == "LSTMCell" else first
            state, _ = jax.lax.scan(lambda state, x: (step(x, state), None), state, jax.vmap(embed)(words))
            return head(state[0] if cell == "LSTMCell" else state)
        return jax.vmap(sample), (SAMPLES, 16), "int32"

    def equinox_perceptron():
        import equinox
        model = equinox.nn.MLP(24, CLASSES, 32, 2, activation=jax.nn.softplus, key=jax.random.key(1))
        return jax.vmap(model), (SAMPLES, 24), "float32"

    def plain():
        first, second = (jax.random.normal(jax.random.key(i), shape) for i, shape in ((1, (24, 32)), (2, (32, CLASSES))))

        def network(x):
            x = jax.nn.softmax(jnp.einsum("bi,ij->bj", x, first) / 5)
            return jnp.where(x > 0.02, x, jnp.exp(-x)) @ second
        return network, (SAMPLES, 24), "float32"

    words = ((SAMPLES, 16), "int32")
    return {"perceptron": perceptron, "images": lambda: (Images(nnx.Rngs(1)), (SAMPLES, 32, 32, 3), "float32"),
            "encoder": lambda: (Words(nnx.Rngs(1)), *words), "decoder": lambda: (Words(nnx.Rngs(1), True), *words),
            "lstm": lambda: recurrent("LSTMCell"), "gru": lambda: recurrent("GRUCell"),
            "equinox": equinox_perceptron, "plain": plain}


def export_jax(name, path):
    import jax
    import jax2onnx
    model, shape, dtype = jax_models()[name]()
    if hasattr(model, "eval"):
        model.eval()
    jax2onnx.to_onnx(model, [jax.ShapeDtypeStruct(shape, dtype)], return_mode="file", output_path=str(path), input_names=["x"])
    return only_input(path, drawn(shape, dtype))


def families():
    """Of each exporter that is installed here: its name, the names of models, and what exports one."""
    made = []
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if all(importlib.util.find_spec(name) for name in ("keras", "tf2onnx" if backend != "torch" else "onnxscript")):
        made.append((f"keras on {backend}", keras_models, export_keras))
    if all(importlib.util.find_spec(name) for name in ("tensorflow", "tf2onnx")) and backend == "tensorflow":
        made.append(("tf2onnx", keras_models, export_tf2onnx))
    if importlib.util.find_spec("jax2onnx"):
        made.append(("jax2onnx", jax_models, export_jax))
    return made
