"""A network of two hidden parts learns which quadrant and ring a point lies in. Any layout gives the same weights:

    python examples/python/mlp.py
    python examples/python/mlp.py "p=2 t=2"
"""
import sys

import numpy as np

import ramet

SAMPLES, WIDTH, CLASSES = 32, 64, 8  # samples of a micro-batch


def build():
    m = ramet.ModelBuilder("rings")
    x = m.input("points", "f32", [SAMPLES, 2])
    labels = m.input("labels", "i32", [SAMPLES], low=0, high=CLASSES - 1)
    h = ramet.relu(ramet.linear(x, m.weight("in", [WIDTH, 2], ramet.Init.fan_in()), m.weight("in.bias", [WIDTH])))
    for i in range(2):
        with m.part("hidden", i):  # pipelines (p) cut between parts, tensor shards (t) along "mlp"
            up = m.weight(f"up{i}", [4 * WIDTH, WIDTH], ramet.Init.fan_in(), axes=["mlp", ""])
            down = m.weight(f"down{i}", [WIDTH, 4 * WIDTH], ramet.Init.fan_in(1), axes=["", "mlp"])
            h = h + ramet.matmul(ramet.gelu(ramet.matmul(h, up, transpose_b=True)), down, transpose_b=True)
    logits = ramet.linear(h, m.weight("out", [CLASSES, WIDTH], ramet.Init.normal(0.05)), m.weight("out.bias", [CLASSES]))
    loss = ramet.cross_entropy(logits, labels)
    m.loss(loss.loss)
    m.metric("accuracy", ramet.Ratio(loss.correct, loss.count))
    m.output("logits", logits)
    return m.build()


def points(count, seed=0):
    x = np.random.default_rng(seed).uniform(-1, 1, (count, 2)).astype(np.float32)
    quadrant = (x[:, 0] > 0) + 2 * (x[:, 1] > 0)
    return {"points": x, "labels": (quadrant + 4 * (np.hypot(*x.T) > 0.8)).astype(np.int32)}


def main(layout=""):
    training = ramet.Training(build(), train=ramet.Data.arrays(points(4096)), held_out=ramet.Data.arrays(points(512, 1)),
                              optimizer=ramet.AdamW(), schedule=ramet.Schedule(kind="cosine", learning_rate=3e-3),
                              steps=200, micro_batches=4, lanes=2, chunks=2, layout=layout)
    result = training.fit(progress=sys.stderr.isatty())
    print(f"accuracy {result.last_evaluation['accuracy']:.3f}, weights {training.weights_hash()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
