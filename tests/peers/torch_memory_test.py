"""Options(memory="low") on modules of transformers: less memory, and the same bits.

The modules are those of bench/torch_step.py, smaller, as it trains them: in bf16, without dropout.
"""

import sys
import unittest

import torch_support
from peers import ROOT, needs

import torch

import ramet.torch as rt

sys.path.insert(0, str(ROOT / "bench" / "peers"))
import torch_zoo

MODELS = {
    "bert": dict(), "gpt2": dict(), "vit_of_transformers": dict(), "t5": dict(), "wav2vec2": dict(),
    # One micro-batch cannot be had: gradients are summed, and kept.
    "gpt2 of two micro-batches": dict(micro_batches=2),
    "t5 with clipping": dict(max_grad_norm=0.1),
}
STEPS, SAMPLES = 3, 4


@needs("torch", "transformers", "ramet")
class LowMemory(unittest.TestCase):
    def train(self, name, **options):
        """Losses and norms of a few steps, the hash of the weights after them, and planned bytes."""
        module, make_batch, loss = torch_zoo.make(name)
        generator = torch.Generator().manual_seed(5)
        make = lambda samples: make_batch(samples, generator)
        step = rt.training_model(module, torch.optim.AdamW(module.parameters(), lr=1e-3), example=make(SAMPLES), loss=loss,
                                 options=rt.Options(precision="bf16", threads=2, **options))
        results = [step(**make(SAMPLES * options.get("micro_batches", 1))) for _ in range(STEPS)]
        return [(each.loss, each.grad_norm) for each in results], step.weights_hash(), step.plan.device_bytes[0]

    def test_modules_of_transformers_have_the_same_bits(self):
        for name, options in MODELS.items():
            with self.subTest(name):
                numbers, weights, most = self.train(name.split()[0], **options)
                low_numbers, low_weights, low = self.train(name.split()[0], memory="low", **options)
                self.assertEqual(low_numbers, numbers)
                self.assertEqual(low_weights, weights)
                self.assertLess(low, most)


if __name__ == "__main__":
    unittest.main()
