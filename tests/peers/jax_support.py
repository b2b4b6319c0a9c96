"""Functions of plain JAX that jax_test.py trains: a language model, and a network of convolutions."""
import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY, WIDTH, HEADS, LENGTH, LAYERS = 29, 16, 2, 8, 2


def normal(rng, *shape, scale=0.3):
    return jnp.asarray(rng.normal(size=shape).astype("f4") * scale)


def language_params(seed=0):
    rng = np.random.default_rng(seed)
    layer = lambda: {"norm1": jnp.ones(WIDTH), "qkv": normal(rng, WIDTH, 3 * WIDTH), "out": normal(rng, WIDTH, WIDTH),
                     "norm2": jnp.ones(WIDTH), "up": normal(rng, WIDTH, 4 * WIDTH), "up_bias": jnp.zeros(4 * WIDTH),
                     "down": normal(rng, 4 * WIDTH, WIDTH), "down_bias": jnp.zeros(WIDTH)}
    return {"words": normal(rng, VOCABULARY, WIDTH), "places": normal(rng, LENGTH, WIDTH),
            "layers": [layer() for _ in range(LAYERS)], "norm": jnp.ones(WIDTH)}


def norm(x, gain):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * gain


def attention(x, layer):
    q, k, v = jnp.split(x @ layer["qkv"], 3, -1)
    heads = lambda a: a.reshape(*a.shape[:2], HEADS, -1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", heads(q), heads(k)) / np.sqrt(WIDTH // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), heads(v)).reshape(x.shape) @ layer["out"]


def logits(params, batch):
    x = params["words"][batch["ids"]] + params["places"]
    for i, layer in enumerate(params["layers"]):
        with jax.named_scope(f"layers.{i}"):
            x = x + attention(norm(x, layer["norm1"]), layer)
            inner = jax.nn.gelu(norm(x, layer["norm2"]) @ layer["up"] + layer["up_bias"])
            x = x + inner @ layer["down"] + layer["down_bias"]
    return norm(x, params["norm"]) @ params["words"].T


def language_loss(params, batch):
    scores = jax.nn.log_softmax(logits(params, batch))
    loss = -jnp.take_along_axis(scores, batch["next"][..., None], -1).mean()
    return loss, {"accuracy": (scores.argmax(-1) == batch["next"]).mean()}


def language_batch(samples, seed=1):
    ids = np.random.default_rng(seed).integers(0, VOCABULARY, (samples, LENGTH + 1)).astype("i4")
    return {"ids": ids[:, :-1], "next": ids[:, 1:]}


def image_params(seed=0):
    rng = np.random.default_rng(seed)
    return {"first": normal(rng, 3, 3, 2, 8), "depth": normal(rng, 3, 3, 1, 8), "second": normal(rng, 3, 3, 8, 8),
            "bias": jnp.zeros(8), "steps": normal(rng, 3, 8, 8), "head": normal(rng, 8, 5)}


def image_loss(params, batch):
    order = ("NHWC", "HWIO", "NHWC")
    x = jax.lax.conv_general_dilated(batch["image"], params["first"], (1, 1), "SAME", dimension_numbers=order)
    x = jax.nn.relu(x + params["bias"])
    x = jax.lax.conv_general_dilated(x, params["depth"], (1, 1), "SAME", dimension_numbers=order, feature_group_count=8)
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.silu(jax.lax.conv_general_dilated(x, params["second"], (2, 2), ((1, 1), (1, 1)), dimension_numbers=order))
    x = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID") / 4
    x = x.mean((1, 2))
    x, _ = jax.lax.scan(jax.checkpoint(lambda x, w: (jnp.tanh(x @ w) + x, None)), x, params["steps"])
    scores = x @ params["head"]
    chosen = scores[jnp.arange(scores.shape[0]), batch["label"]]
    penalty = 1e-3 * sum(jnp.sum(each ** 2) for each in jax.tree_util.tree_leaves(params))
    return (jax.nn.logsumexp(scores, -1) - chosen).mean() + penalty + 0 * jnp.clip(x, -1, 1).max()


def image_batch(samples, seed=1):
    rng = np.random.default_rng(seed)
    return {"image": rng.normal(size=(samples, 8, 8, 2)).astype("f4"), "label": rng.integers(0, 5, samples).astype("i4")}


def adam(loss, params, batches, rate, micro_batches=1):
    """Losses and last weights of Adam, in JAX alone. A gradient is the mean of those of the micro-batches."""
    first = lambda params, batch: loss(params, batch)[0] if isinstance(jax.eval_shape(loss, params, batch), tuple) \
        else loss(params, batch)
    derive = jax.jit(jax.value_and_grad(first))
    over = jax.tree_util.tree_map
    mean = square = over(jnp.zeros_like, params)
    losses = []
    for step, batch in enumerate(batches, 1):
        size = len(next(iter(batch.values()))) // micro_batches
        found = [derive(params, {name: each[i * size:(i + 1) * size] for name, each in batch.items()})
                 for i in range(micro_batches)]
        losses.append(float(np.mean([value for value, _ in found])))
        gradient = over(lambda *each: sum(each) / micro_batches, *(each for _, each in found))
        mean = over(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = over(lambda v, g: 0.999 * v + 0.001 * g * g, square, gradient)
        params = over(lambda p, m, v: p - rate * (m / (1 - 0.9 ** step)) / (jnp.sqrt(v / (1 - 0.999 ** step)) + 1e-8),
                      params, mean, square)
    return losses, params
