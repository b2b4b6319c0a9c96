"""PyTorch's own layers with the samples in their second dimension, complex numbers, and distributions, beside PyTorch."""

import copy
import unittest

from torch_support import seeded
import torch
from torch import nn

import ramet
import ramet.torch as rt

functional = nn.functional


class Translator(nn.Module):
    """nn.Transformer as it is by default: time first, and a mask whose values PyTorch looks at."""

    def __init__(self):
        super().__init__()
        self.net, self.out = nn.Transformer(16, 2, 1, 1, 32, 0.0), nn.Linear(16, 5)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[0])
        return self.out(self.net(source, target, tgt_mask=mask))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.out = nn.GRU(4, 8, 2), nn.Linear(8, 3)

    def forward(self, x, first):
        states, last = self.net(x, first)
        return {"scores": self.out(states), "last": last}


class Rotary(nn.Module):
    """Positions as complex factors, in a buffer."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 8)
        self.register_buffer("turns", torch.polar(torch.ones(6, 4), torch.outer(torch.arange(6.), 0.1 ** torch.arange(4.))),
                             persistent=False)

    def forward(self, x):
        pairs = torch.view_as_complex(self.net(x).reshape(*x.shape[:-1], 4, 2))
        return torch.view_as_real(pairs * self.turns).flatten(2)


class Spectral(nn.Module):
    """A layer of a Fourier neural operator: products of a few frequencies with complex weights."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(1, 3), nn.Linear(3, 1)
        self.weight = nn.Parameter(0.3 * torch.randn(3, 3, 4, 2))

    def forward(self, x):
        frequencies = torch.fft.rfft(self.first(x).permute(0, 2, 1))
        made = torch.zeros_like(frequencies)
        made[:, :, :4] = torch.einsum("bix,iox->box", frequencies[:, :, :4], torch.view_as_complex(self.weight))
        return self.last(torch.fft.irfft(made, n=x.shape[1]).permute(0, 2, 1)) + made.abs().mean((1, 2), keepdim=True)


class Density(nn.Module):
    """Distributions check their arguments, as the loss does."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 6)

    def forward(self, x):
        mean, scale = self.net(x).chunk(2, -1)
        normal = torch.distributions.Normal(mean, functional.softplus(scale) + 0.1)
        choice = torch.distributions.Categorical(logits=mean)
        loss = nn.GaussianNLLLoss(full=True, reduction="none", eps=0.01)(mean, x[:, 3:], scale.square())
        return normal.log_prob(x[:, :3]).sum(1) + choice.entropy() - loss.mean(1)


def compare(test, make, batch, loss, dims=None, micro_batches=1, outputs=(), **options):
    """Five steps beside PyTorch's; returns (step, PyTorch's module, samples of a step)."""
    dims = dims or {}
    mine = seeded(make)
    theirs = copy.deepcopy(mine)
    whole = {name: torch.cat([tensor] + [tensor + 0.1] * (micro_batches - 1), dims.get(name, 0)) for name, tensor in batch.items()}
    rate = torch.optim.SGD(theirs.parameters(), lr=0.05)
    step = rt.training_model(mine, torch.optim.SGD(mine.parameters(), lr=0.05), example=batch, loss=loss,
                             options=rt.Options(batch_dims=dims, micro_batches=micro_batches, outputs=outputs, threads=1, **options))
    for _ in range(5):
        rate.zero_grad()
        found = theirs(**whole)
        expected = loss(found, whole)
        expected.backward()
        rate.step()
        result = step(**whole)
        test.assertAlmostEqual(result.loss / expected.item(), 1, delta=1e-5)
        for name in outputs:
            torch.testing.assert_close(result.outputs[name], (found[name] if isinstance(found, dict) else found).detach(),
                                       rtol=1e-4, atol=1e-5)
    return step, theirs.eval(), whole


class Modules(unittest.TestCase):
    def test_samples_in_the_second_dimension(self):
        torch.manual_seed(3)
        translator = {"source": torch.randn(6, 4, 16), "target": torch.randn(5, 4, 16)}
        recurrent = {"x": torch.randn(5, 4, 4), "first": torch.randn(2, 4, 8)}
        cases = ((Translator, translator, lambda out, batch: out.pow(3).mean(), {"source": 1, "target": 1, "output": 1}, ["output"]),
                 (Recurrent, recurrent, lambda out, batch: out["scores"].square().mean() + out["last"].square().mean(),
                  {"x": 1, "first": 1, "scores": 1, "last": 1}, ["scores", "last"]))
        for make, batch, loss, dims, outputs in cases:
            for how in ({}, {"micro_batches": 2}, {"micro_batches": 2, "lanes": 2, "layout": "r=2"}):
                with self.subTest(make.__name__, **how):
                    step, theirs, whole = compare(self, make, batch, loss, dims, outputs=outputs, **how)
                    expected = theirs(**whole)
                    torch.testing.assert_close(step.predict(**whole), expected, rtol=1e-4, atol=1e-5)
            predictor = rt.inference_model(theirs, batch, rt.Options(batch_dims=dims, threads=1))
            torch.testing.assert_close(predictor(**whole), expected, rtol=1e-4, atol=1e-5)

    def test_dimensions_that_do_not_count_samples_are_refused(self):
        batch = {"x": torch.randn(5, 4, 4), "first": torch.randn(2, 4, 8)}
        for dims, text in (
                ({"x": 1}, "example: inputs with different numbers of samples; found x [4, 5, 4], first [2, 4, 8]; expected the same "
                 "first dimension, the samples of a micro-batch, in all inputs. Say which dimension counts the samples "
                 "(Options.batch_dims); make what does not count them a buffer of the module, or compute it in forward"),
                ({"x": 1, "first": 3}, "Options.batch_dims['first']: no such dimension; found 3, of [2, 4, 8]; expected 0 to 2"),
                ({"x": 1, "first": 1, "score": 1},
                 "Options.batch_dims: no input or output of this name; found score; expected x, first, scores, last")):
            with self.subTest(dims), self.assertRaises(ramet.Error) as caught:
                rt.inference_model(seeded(Recurrent).eval(), batch, rt.Options(batch_dims=dims))
            self.assertEqual(str(caught.exception), text)
        step = rt.inference_model(seeded(Recurrent).eval(), batch, rt.Options(batch_dims={"x": 1, "first": 1}, threads=1))
        with self.assertRaises(ramet.ShapeError) as caught:
            step(x=torch.randn(6, 4, 4), first=batch["first"])
        self.assertIn("found float32[6, 4, 4]; expected float32[5, samples, 4]", str(caught.exception))

    def test_complex_numbers(self):
        torch.manual_seed(3)
        compare(self, Rotary, {"x": torch.randn(4, 6, 8)}, lambda out, batch: out.pow(3).mean())
        step, theirs, whole = compare(self, Spectral, {"x": torch.randn(4, 16, 1)}, lambda out, batch: out.square().mean(),
                                      micro_batches=2)
        torch.testing.assert_close(step.predict(**whole), theirs(**whole), rtol=1e-4, atol=1e-5)

        class Weights(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(4, dtype=torch.complex64))

            def forward(self, x):
                return (x * self.weight).abs()

        with self.assertRaises(ramet.UnsupportedOp) as caught:
            rt.inference_model(Weights(), {"x": torch.randn(2, 4)})
        self.assertIn("keep torch.view_as_real of it, and take torch.view_as_complex in forward", str(caught.exception))

    def test_checks_of_arguments_are_left_out(self):
        torch.manual_seed(3)
        compare(self, Density, {"x": torch.rand(4, 6)}, lambda out, batch: -out.mean())


if __name__ == "__main__":
    unittest.main()
