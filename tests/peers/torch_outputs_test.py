"""The outputs of training steps (Options.outputs) beside those of PyTorch."""

import tempfile
import unittest

import torch_support
from torch_support import Net, batch, seeded
import torch
from torch import nn

import ramet
import ramet.torch as rt

LAYOUTS = ("", "r=2 rts=optimizer", "p=2", "t=2", "phases=2 offload=optimizer recompute=layer")


class Several(nn.Module):
    """Outputs of several types: of each sample, of the batch, an input, a parameter, in a nested structure."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2))
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, y):
        states = [self.first(x)]
        for layer in self.layers:
            states.append(states[-1] + layer(states[-1]))
        out = self.last(states[-1])
        return {"loss": nn.functional.mse_loss(out, y), "states": tuple(states), "best": out.argmax(-1),
                "above": out > 0, "mean": out.mean(0), "norm": out.norm(), "x": x, "weight": self.last.weight}


NAMES = ("states.0", "states.2", "best", "above", "mean", "x", "weight")


def flat(outputs):
    named = {name: value.detach() for name, value in outputs.items() if isinstance(value, torch.Tensor)}
    return named | {f"states.{i}": each.detach() for i, each in enumerate(outputs["states"])}


def made(module, rate=0.1, **options):
    return rt.training_model(module, torch.optim.SGD(module.parameters(), lr=rate), example=batch(), loss="loss",
                             options=rt.Options(**(dict(threads=1) | options)))


class Outputs(unittest.TestCase):
    def test_a_step_gives_what_the_module_gives_before_the_update_on_any_layout(self):
        found = []
        for layout in LAYOUTS:
            with self.subTest(layout):
                theirs, mine = seeded(Several), seeded(Several)
                optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
                step = made(mine, micro_batches=4, lanes=2, chunks=2, threads=2, layout=layout, outputs=NAMES,
                            parts=["layers.*"])
                for i in range(2):
                    samples = batch(16, seed=i)
                    parts = [theirs(**{name: each[4 * k:4 * k + 4] for name, each in samples.items()}) for k in range(4)]
                    result = step(**samples)
                    self.assertEqual(set(result.outputs), set(NAMES))
                    self.assertEqual(set(result.metrics), {"norm"})
                    for name in NAMES:
                        own = [flat(part)[name] for part in parts]
                        whole = torch.stack(own) if name in ("mean", "weight") else torch.cat(own)
                        torch.testing.assert_close(result.outputs[name], whole, rtol=1e-5, atol=1e-5, msg=name)
                        self.assertFalse(result.outputs[name].requires_grad)
                    found.append([result.outputs[name] for name in NAMES])
                    optimizer.zero_grad()
                    (sum(part["loss"] for part in parts) / 4).backward()
                    optimizer.step()
        for one, other in zip(found[:2] * len(LAYOUTS), found):
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(one, other)))

    def test_outputs_change_no_bit_and_no_checkpoint(self):
        plain, asked = (made(seeded(Several), outputs=names) for names in ((), NAMES))
        self.assertEqual(plain(**batch()).outputs, {})
        self.assertEqual(asked(**batch()).outputs["mean"].shape, (3,))
        self.assertEqual(plain.weights_hash(), asked.weights_hash())
        with tempfile.TemporaryDirectory() as folder:
            asked.restore(plain.save(folder))
        self.assertEqual(plain(**batch(seed=5)).loss, asked(**batch(seed=5)).loss)
        self.assertEqual(plain.weights_hash(), asked.weights_hash())

    def test_results_outlive_later_steps(self):
        step = made(seeded(Net), outputs="out")
        first = step(**batch())
        kept = first.outputs["out"].clone()
        second = step(**batch())
        self.assertFalse(torch.equal(kept, second.outputs["out"]))
        self.assertTrue(torch.equal(kept, first.outputs["out"]))

    def test_outputs_that_nobody_asks_for_take_no_memory(self):
        class Wide(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(6))

            def forward(self, x, y):
                scaled = x * self.weight
                return {"loss": scaled.mean() + y.mean(), "wide": scaled[:, :, None].expand(-1, -1, 50_000) + 1}

        bytes_of = lambda outputs: made(Wide(), predicts=False, outputs=outputs).plan.device_bytes[0]
        self.assertLess(bytes_of(()), 1 << 20)
        self.assertGreater(bytes_of(("wide",)), 4 * 6 * 50_000 * 4)

    def test_types_are_those_of_the_module(self):
        class Typed(Net):
            def forward(self, x, y):
                made = super().forward(x, y)
                return made | {"half": made["out"].bfloat16(), "count": (x > 0).sum(-1), "double": made["out"].double()}

        module = seeded(Typed)
        expected = module(**batch())
        outputs = made(module, outputs=("half", "count", "double"))(**batch()).outputs
        for name, each in outputs.items():
            self.assertEqual(each.dtype, expected[name].dtype)
            torch.testing.assert_close(each, expected[name].detach(), rtol=1e-2 if name == "half" else 1e-5, atol=1e-5)

    def test_added_samples_are_left_out(self):
        class Counted(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(6, 3)

            def forward(self, x, labels):
                logits = self.net(x)
                return {"loss": nn.functional.cross_entropy(logits, labels), "items": (labels >= 0).sum(), "logits": logits}

        module = seeded(Counted)
        x, labels = torch.randn(7, 6), torch.randint(0, 3, (7,))
        expected = module(x, labels)["logits"].detach()
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), loss="loss",
                                 example={"x": x[:4], "labels": labels[:4]},
                                 options=rt.Options(micro_batches=2, pad_last={"labels": -100}, loss_mean="items",
                                                    outputs="logits", threads=1))
        outputs = step(x=x, labels=labels).outputs
        torch.testing.assert_close(outputs["logits"], expected, rtol=1e-5, atol=1e-5)

    def test_a_skipped_step_gives_none(self):
        step = made(seeded(Net), precision="f16", loss_scale=None, outputs="out")
        result = step(x=batch()["x"], y=batch()["y"] * 10_000)
        self.assertEqual((result.skipped, result.outputs), (True, {}))

    def test_names_that_a_step_cannot_give_are_refused(self):
        with self.assertRaises(ramet.Error) as caught:
            made(seeded(Net), outputs=("logits",))
        self.assertEqual(str(caught.exception), "Options.outputs: no output of this name; found 'logits'; expected out")
        with self.assertRaises(ramet.Error) as caught:
            made(seeded(Net), outputs=("loss",))
        self.assertEqual(str(caught.exception), "Options.outputs: an output that is one number; found 'loss'; expected out. "
                                                "Each step gives scalars as result.loss and result.metrics")


if __name__ == "__main__":
    unittest.main()
