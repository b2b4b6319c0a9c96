"""What transformers' decoders write out becomes Ramet's own ops: rotary positions, grouped heads, norms, attention."""

import copy
import re
import sys
import unittest

import torch_support  # noqa: F401  (finds the built package, or skips everything)
from peers import ROOT, needs

import torch

import ramet.torch as rt

sys.path.append(str(ROOT / "bench" / "peers"))
LAYERS = 2


def ops_of(step):
    """Ops of the training graph in their order, with the shapes of the tensors that attention reads."""
    forward = step._model.text().split("\ngraph ")[0]
    types = {name: kind for line in forward.splitlines() if " = " in line
             for name, kind in [(line.split()[0].rstrip(","), line.split(" : ")[-1].split(" ")[0].rstrip(","))]}
    found = re.findall(r"= (\w+)\(([^)]*)\)", forward)
    return [op for op, _ in found], [[types[each] for each in operands.split(", ")[:3]]
                                     for op, operands in found if op.startswith("attention")]


@needs("torch", "transformers", "ramet")
class FusedTest(unittest.TestCase):
    def compare(self, name, norm, heads, key_heads, norms=2 * LAYERS + 1):
        import torch_zoo

        module, batch, loss = torch_zoo.make(name)
        example = batch(2, torch.Generator().manual_seed(1))
        reference = copy.deepcopy(module)
        optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=example, loss=loss,
                                 options=rt.Options(threads=1))
        ops, attention = ops_of(step)
        self.assertEqual(ops.count("rotary"), 2 * LAYERS, ops)     # of queries and of keys
        self.assertEqual(ops.count("attention"), LAYERS, ops)
        self.assertEqual(ops.count(norm), norms, ops)
        self.assertEqual(ops.count("negate"), 0, ops)              # of halves that turn
        self.assertEqual([[each.split(",")[2] for each in operands] for operands in attention],
                         [[str(heads), str(key_heads), str(key_heads)]] * LAYERS)
        for _ in range(3):
            expected = reference(**example)[loss]
            optimizer.zero_grad()
            expected.backward()
            optimizer.step()
            self.assertAlmostEqual(step(**example).loss, expected.item(), delta=1e-5 * expected.item())
        return ops

    def test_llama(self):
        self.compare("llama", "rms_norm", 4, 2)

    def test_qwen2(self):
        self.compare("qwen2", "rms_norm", 4, 2)

    def test_gpt_neox(self):
        ops = self.compare("gpt_neox", "layer_norm", 4, 4)
        self.assertEqual(ops.count("concat"), 1, ops)  # of the angles of all layers: heads that turn in part stay whole

    def test_gptj(self):
        ops = self.compare("gptj", "layer_norm", 4, 4, norms=LAYERS + 1)
        self.assertEqual(ops.count("softmax"), 0, ops)  # its attention is written out too


if __name__ == "__main__":
    unittest.main()
