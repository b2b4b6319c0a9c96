"""Operators that PyTorch's own trace tells little of: statistics of instance norms, maxima of bags, draws in evaluation."""

import copy
import unittest

import torch_support  # noqa: F401  (finds the built package, or skips everything)
import torch
from torch import nn

import ramet
import ramet.torch as rt


class Instances(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 3, 1)
        self.norm = nn.InstanceNorm2d(3, affine=True, track_running_stats=True, momentum=0.3)

    def forward(self, x, y):
        out = self.norm(self.first(x))
        return {"loss": (out - y).square().mean(), "out": out}


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(11, 3, mode="max", padding_idx=0)

    def forward(self, x, y):
        out = self.bag(x)
        return {"loss": (out - y).square().mean(), "out": out}


class Gammas(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)

    def forward(self, x, y):
        out = torch.digamma(self.first(x).square() + 0.5)
        return {"loss": (out - y).square().mean(), "out": out}


class Polygammas(nn.Module):
    """Derivatives of digamma, each of its own parameters."""

    def __init__(self, at=(-8.3, -7.6, -5.5, -2.2, -0.7, -0.4, 0.3, 0.9, 1.5, 4.0, 12.0, 40.0)):
        super().__init__()
        self.w = nn.ParameterList(nn.Parameter(torch.tensor(at)) for _ in range(5))

    def forward(self, x):
        made = {f"order{n}": torch.polygamma(n, w) for n, w in enumerate(self.w, 1)}
        return made | {"loss": sum(each.sum() for each in made.values()) + 0 * x.mean()}


class Draws(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return {"draws": torch.bernoulli(torch.full_like(x, 0.25)) * self.w, "dropped": nn.functional.dropout(torch.ones_like(x)),
                "kept": nn.functional.dropout(torch.ones_like(x), training=self.training)}


class Counts(nn.Module):
    """Gives how often it was called."""

    def __init__(self, shows=True):
        super().__init__()
        self.shows = shows
        self.w = nn.Parameter(torch.ones(3))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x * self.w + (self.calls if self.shows else 0)


class OpsTest(unittest.TestCase):
    def compare(self, make, inputs):
        """Losses, weights and buffers of three steps, and what the module predicts then, beside PyTorch."""
        torch.manual_seed(1)
        module = make()
        reference = copy.deepcopy(module)
        optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
        batches = [inputs(torch.Generator().manual_seed(i)) for i in range(3)]
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=batches[0], loss="loss",
                                 options=rt.Options(threads=1))
        for each in batches:
            expected = reference(**each)["loss"]
            optimizer.zero_grad()
            expected.backward()
            optimizer.step()
            self.assertAlmostEqual(step(**each).loss, expected.item(), delta=2e-5 * expected.item())
        mine = step.copy_to(module).state_dict()
        for name, value in reference.state_dict().items():
            torch.testing.assert_close(mine[name], value, rtol=1e-4, atol=1e-6, msg=name)
        reference.eval()
        torch.testing.assert_close(step.predict(**batches[0])["out"], reference(**batches[0])["out"], rtol=1e-4, atol=1e-5)

    def test_instance_norms_keep_their_statistics(self):
        self.compare(Instances, lambda draw: {"x": torch.randn(4, 2, 5, 5, generator=draw), "y": torch.randn(4, 3, 5, 5, generator=draw)})

    def test_maxima_of_bags(self):
        self.compare(Bags, lambda draw: {"x": torch.randint(0, 11, (4, 5), generator=draw), "y": torch.randn(4, 3, generator=draw)})

    def test_digamma_has_a_gradient(self):
        self.compare(Gammas, lambda draw: {"x": torch.randn(4, 3, generator=draw), "y": torch.randn(4, 3, generator=draw)})

    def test_derivatives_of_digamma_have_values_and_gradients(self):
        exact = Polygammas().double()
        expected = exact(torch.ones(1, 1))
        expected["loss"].backward()
        module = Polygammas()
        names = [f"order{n}" for n in range(1, 6)]
        step = rt.training_model(module, torch.optim.SGD(module.parameters(), lr=1.0), example={"x": torch.ones(1, 1)}, loss="loss",
                                 options=rt.Options(threads=1, outputs=names))
        outputs = step(x=torch.ones(1, 1)).outputs
        for name in names:
            torch.testing.assert_close(outputs[name].double().reshape(-1), expected[name].detach(), rtol=1e-4, atol=1e-6, msg=name)
        after = step.state_dict()
        for i, w in enumerate(exact.w):
            gradient = module.w[i].detach() - after[f"w.{i}"]
            torch.testing.assert_close(gradient.double(), w.grad, rtol=2e-4, atol=1e-5, msg=f"gradient of order {i + 1}")

    def test_an_order_above_the_twentieth_is_refused(self):
        class High(nn.Module):
            def forward(self, x):
                return torch.polygamma(21, x)

        with self.assertRaisesRegex(ramet.UnsupportedOp, r"a derivative of digamma of order 21. Use torch.polygamma\(n, x\) with n up to 20"):
            rt.inference_model(High(), example=torch.ones(2, 3))

    def test_evaluation_draws_as_the_module_says(self):
        predict = rt.inference_model(Draws().eval(), example={"x": torch.ones(64, 3)})
        found = predict(x=torch.ones(256, 3))
        self.assertEqual(set(found["draws"].unique().tolist()), {0.0, 1.0})
        self.assertAlmostEqual(found["draws"].mean().item(), 0.25, delta=0.06)
        self.assertEqual(set(found["dropped"].unique().tolist()), {0.0, 2.0})
        self.assertEqual(set(found["kept"].unique().tolist()), {1.0})

    def test_an_evaluation_that_changes_what_it_gives_is_refused(self):
        with self.assertRaises(ramet.UnsupportedOp) as caught:
            rt.inference_model(Counts().eval(), example={"x": torch.ones(2, 3)})
        self.assertEqual(str(caught.exception),
                         "Counts: an evaluation whose outputs depend on buffers that it changes; found calls. Predictions change no "
                         "buffer. Change buffers in training alone (if self.training), or pass the value as an input")
        predict = rt.inference_model(Counts(shows=False).eval(), example={"x": torch.ones(2, 3)})
        torch.testing.assert_close(predict(x=torch.ones(2, 3)), torch.ones(2, 3))

    def test_an_incomplete_batch_is_filled_up(self):
        class Classes(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Linear(3, 5)

            def forward(self, x, labels):
                return {"loss": nn.functional.cross_entropy(self.first(x), labels)}

        torch.manual_seed(1)
        module = Classes()
        reference = copy.deepcopy(module)
        draw = torch.Generator().manual_seed(2)
        whole = {"x": torch.randn(8, 3, generator=draw), "labels": torch.randint(0, 5, (8,), generator=draw)}
        options = dict(threads=1, micro_batches=2, loss_mean=lambda outputs, batch: (batch["labels"] != -100).sum())
        make = lambda **more: rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), loss="loss",
                                                example={name: each[:4] for name, each in whole.items()}, options=rt.Options(**more))
        step = make(**options, pad_last={"labels": -100})
        optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
        for samples in (8, 5, 3):  # two micro-batches, one and a part, a part
            batch = {name: each[:samples] for name, each in whole.items()}
            evaluated = step.evaluate(**batch).loss
            expected = reference(**batch)["loss"]
            optimizer.zero_grad()
            expected.backward()
            optimizer.step()
            self.assertAlmostEqual(evaluated, expected.item(), delta=1e-5)
            self.assertAlmostEqual(step(**batch).loss, expected.item(), delta=1e-5)
        torch.testing.assert_close(step.copy_to(module).first.weight, reference.first.weight, rtol=1e-5, atol=1e-6)
        with self.assertRaisesRegex(ramet.Error, "Options.pad_last: no input of this name; found label; expected x, labels"):
            make(**options, pad_last={"label": -100})(**{name: each[:5] for name, each in whole.items()})
        with self.assertRaisesRegex(ramet.Error, "expected None without loss_mean: added samples would count"):
            make(threads=1, pad_last={"labels": -100})
        with self.assertRaisesRegex(ramet.Error, r"or fill it up \(Options.pad_last\)"):
            make(**options)(**{name: each[:5] for name, each in whole.items()})


if __name__ == "__main__":
    unittest.main()
