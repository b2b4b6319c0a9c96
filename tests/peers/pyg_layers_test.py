"""Layers of PyTorch Geometric, unchanged, through ramet.torch: answers, losses of training, and one hash on two layouts."""

import unittest
import warnings

from torch_support import torch
from peers import needs

warnings.simplefilter("ignore")  # torch.jit.script is deprecated, says PyTorch of PyTorch Geometric

STEPS, LAYOUT_STEPS = 12, 3
# Gradients of some biases are nothing but rounding. Adam would scale them up to whole steps, were its epsilon smaller.
EPSILON = 1e-4


def optimizer_of(module):
    return torch.optim.Adam(module.parameters(), lr=1e-2, eps=EPSILON)


def losses_of_pytorch(module, batches, nodes):
    optimizer, losses = optimizer_of(module.train()), []
    for batch in batches:
        optimizer.zero_grad()
        parts = [module(**{name: each[i * nodes:(i + 1) * nodes] for name, each in batch.items()})["loss"] / 2 for i in range(2)]
        sum(parts).backward()
        optimizer.step()
        losses.append(sum(part.item() for part in parts))
    return losses


@needs("torch", "torch_geometric", "ramet")
class LayersTest(unittest.TestCase):
    def compare(self, name):
        """The largest differences of answers and of losses, relative; and the hashes on two layouts."""
        import pyg_zoo
        import ramet.torch as rt
        from ramet.torch._compile import source_of_training

        batches = [{key: torch.cat([pyg_zoo.batch(2 * step)[key], pyg_zoo.batch(2 * step + 1)[key]]) for key in ("x", "y")}
                   for step in range(STEPS)]
        module, example = pyg_zoo.make(name), pyg_zoo.batch()
        options = lambda layout: rt.Options(layout=layout, micro_batches=2, lanes=2, threads=1)
        source = source_of_training(module, example, "loss", optimizer_of(module), options(""))
        step = rt.TrainingModel(source, options(""))
        answers = step.predict(**example)["out"]
        losses, hashes = [], []
        for i, batch in enumerate(batches):
            losses.append(step(**batch).loss)
            if i + 1 == LAYOUT_STEPS:
                hashes.append(step.weights_hash())
        del step
        step = rt.TrainingModel(source, options("r=2 rts=optimizer"))
        for batch in batches[:LAYOUT_STEPS]:
            step(**batch)
        hashes.append(step.weights_hash())
        with torch.no_grad():
            expected = module.eval()(**example)["out"]
        expected_losses = losses_of_pytorch(module, batches, pyg_zoo.NODES)
        self.assertNotAlmostEqual(expected_losses[0], expected_losses[-1], places=2)
        return ((answers - expected).abs().max().item() / expected.abs().max().item(),
                max(abs(a - b) / abs(b) for a, b in zip(losses, expected_losses)), hashes)


def add_test(name):
    def test(self):
        answers, losses, hashes = self.compare(name)
        self.assertLess(answers, 1e-5)
        self.assertLess(losses, 1e-4)
        self.assertEqual(hashes[0], hashes[1])

    setattr(LayersTest, "test_" + name.replace("-", "_"), test)


try:
    import pyg_zoo
except ImportError:
    pass
else:
    for each in pyg_zoo.LAYERS:
        add_test(each)


if __name__ == "__main__":
    unittest.main()
