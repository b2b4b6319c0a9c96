"""Small models that the tests of this folder share."""
import numpy as np

import ramet

SAMPLES = 8


def rows_model(name="rows", samples=SAMPLES, more=None):
    """Learns a sum of four numbers; two parts, so that pipelines can cut it."""
    m = ramet.ModelBuilder(name)
    x = m.input("x", "f32", [samples, 4])
    y = m.input("y", "f32", [samples])
    for i in range(2):
        with m.part("layer", i):
            x = x + ramet.tanh(ramet.linear(x, m.weight(f"w{i}", [4, 4], ramet.Init.normal(0.3)), m.weight(f"b{i}", [4])))
    predicted = ramet.reshape(ramet.matmul(x, m.weight("last", [1, 4], ramet.Init.normal(0.3)), transpose_b=True), [samples])
    error = (predicted - y) ** 2
    m.loss(ramet.reduce_mean(error))
    m.metric("worst", ramet.Mean(ramet.reduce_max(error)))
    m.output("predicted", predicted)
    if more:
        more(m)
    return m.build()


def rows(count=SAMPLES, seed=0):
    x = np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)
    return {"x": x, "y": x.sum(1)}


def training(model=None, **options):
    options.setdefault("optimizer", ramet.Sgd())
    options.setdefault("schedule", ramet.Schedule(learning_rate=0.05))
    options.setdefault("threads", 1)
    return ramet.Training(model or rows_model(), **options)
