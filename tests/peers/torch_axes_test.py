"""Tensor shards of modules of PyTorch without any pattern: axes are inferred, and no bit changes."""
import sys
import unittest

import torch_support as support
from peers import ROOT

sys.path.append(str(ROOT / "bench/peers"))
torch = support.torch
torch_zoo = __import__("torch_zoo")
import ramet.torch as rt  # noqa: E402


def trained(name, layout, **options):
    """The step of a model of the zoo after two steps, and its weights' hash."""
    torch.manual_seed(0)
    module, batch, loss = torch_zoo.make(name)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    step = rt.training_model(module, optimizer, example=batch(2, torch.Generator().manual_seed(3)), loss=loss,
                             options=rt.Options(layout=layout, chunks=2, micro_batches=2, threads=1, **options))
    generator = torch.Generator().manual_seed(4)
    for _ in range(2):
        step(**batch(4, generator))
    return step, step.weights_hash()


class InferredAxes(unittest.TestCase):
    def test_shards_change_no_bit_and_share_the_weights(self):
        for name in ("bert", "gpt2", "llama", "vit", "swin"):
            with self.subTest(model=name):
                _, whole = trained(name, "")
                step, cut = trained(name, "t=2")
                self.assertEqual(cut, whole)
                memory = str(step.memory)
                self.assertIn("heads", memory)
                self.assertIn("mlp", memory)

    def test_pipelines_of_shards_change_no_bit(self):
        for name in ("bert", "gpt2"):
            with self.subTest(model=name):
                self.assertEqual(trained(name, "p=2 t=2")[1], trained(name, "")[1])

    def test_embeddings_that_stages_share_have_one_owner_and_change_no_bit(self):
        for name in ("t5", "bart", "whisper"):
            with self.subTest(model=name):
                whole, one = trained(name, "")
                cut, two = trained(name, "p=2")
                self.assertEqual(two, one)
                self.assertEqual(cut.state_dict().keys(), whole.state_dict().keys())

    def test_patterns_override(self):
        step, cut = trained("bert", "t=2", axes={"*": ()})
        self.assertEqual(cut, trained("bert", "")[1])
        self.assertNotIn("heads", str(step.memory))


if __name__ == "__main__":
    unittest.main()
