"""Models of functions of JAX."""
import fnmatch

import jax
import numpy as np

import ramet

from ._walk import Walk


def name_of(path, fallback):
    """A leaf of a pytree by its path: "layers.0.w" for tree["layers"][0]["w"]."""
    parts = [str(getattr(each, "key", getattr(each, "idx", getattr(each, "name", each)))) for each in path]
    return ".".join(parts) or fallback


def named_leaves(tree, fallback):
    """Leaves by name, and the structure of the tree."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    return {name_of(path, fallback): leaf for path, leaf in leaves}, structure


def axes_for(name, axes):
    return next((list(given) for pattern, given in (axes or {}).items() if fnmatch.fnmatchcase(name, pattern)), [])


def declare_weights(builder, params, axes):
    weights = {}
    for name, leaf in named_leaves(params, "weight")[0].items():
        numbers = np.asarray(leaf)
        if numbers.dtype != np.float32:
            raise ramet.ShapeError("a parameter of another type than f32", where=f"params: {name}", found=numbers.dtype.name,
                                   remedy="Weights are f32; precision=\"bf16\" computes products in bf16")
        weights[name] = builder.weight(name, list(numbers.shape), ramet.Init.numbers(np.ascontiguousarray(numbers)),
                                       axes=axes_for(name, axes))
    return weights


def abstract(tree):
    return jax.tree_util.tree_map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), jax.numpy.asarray(leaf).dtype), tree)


def traced(function, params, example):
    """The jaxpr of a function, and the names of its results."""
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(abstract(params), abstract(example))
    return closed, shapes


def scalars_of(shapes, where):
    """Names of the loss and of the metrics beside it; the loss has the name "loss"."""
    loss, rest = (shapes[0], shapes[1:]) if isinstance(shapes, tuple) and shapes else (shapes, ())
    if not hasattr(loss, "shape") or loss.shape != () or loss.dtype != np.float32:
        raise ramet.ShapeError("a loss that is no scalar of f32", where=where, found=str(loss),
                               expected="loss, or (loss, {name: scalar})")
    metrics = list(named_leaves(rest[0], "metric")[0].items()) if len(rest) == 1 else []
    for name, each in metrics:
        if each.shape != ():
            raise ramet.ShapeError("a metric that is no scalar", where=f"{where}: {name}", found=str(each.shape))
    return ["loss", *(name for name, _ in metrics)]


def model(loss, params, example, predict=None, axes=None, name=None):
    """The ramet.Model of a function loss(params, batch), which returns the loss or (loss, {name: metric}).

    `params`: a pytree of f32 arrays, the weights and their first values. `example`: a batch of the samples of a
    micro-batch; the first dimension of each leaf counts samples. `predict`: a function of (params, batch) whose results
    are the outputs of the model. `axes`: meanings of the dimensions of weights by patterns of names, for tensor shards.
    Scopes jax.named_scope("stack.3") are parts, between which pipelines may cut. Raises ramet.UnsupportedOp, which lists
    all primitives that Ramet does not have.
    """
    builder = ramet.ModelBuilder(name or getattr(loss, "__name__", "model"))
    inputs = {key: builder.input(key, jax.numpy.asarray(leaf).dtype.name, list(np.shape(leaf)))
              for key, leaf in named_leaves(example, "batch")[0].items()}
    weights = declare_weights(builder, params, axes)
    walk = Walk(builder)
    arguments = [*weights.values(), *inputs.values()]
    where = getattr(loss, "__qualname__", "loss")
    closed, shapes = traced(loss, params, example)
    names = scalars_of(shapes, where)
    results = [walk.values.tensor(each) for each in walk.run(closed, arguments)]
    outputs = {}
    if predict is not None:
        closed, shapes = traced(predict, params, example)
        outputs = dict(zip(named_leaves(shapes, "output")[0], walk.run(closed, arguments)))
    walk.refusals.raise_for(where)
    builder.loss(results[0])
    for key, value in zip(names[1:], results[1:]):
        builder.metric(key, ramet.Mean(value if value.dtype == ramet.f32 else ramet.cast(value, "f32")))
    for key, value in outputs.items():
        builder.output(key, walk.values.tensor(value))
    return builder.build()
