"""The optimizers that Ramet has and torch.optim lacks, through ramet.torch, against their formulas in PyTorch's f64."""

import unittest

import torch_support
from torch_support import Net, batch, seeded
from peers import needs
import torch

import ramet.torch as rt

STEPS = 6


def lamb(w, g, state, t, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01):
    m, v = state.setdefault("m", torch.zeros_like(w)), state.setdefault("v", torch.zeros_like(w))
    m += (1 - betas[0]) * (g - m)
    v += (1 - betas[1]) * (g * g - v)
    u = (m / (1 - betas[0]**t)) / ((v / (1 - betas[1]**t)).sqrt() + eps) + weight_decay * w
    return w - lr * w.norm() / u.norm() * u


def lars(w, g, state, t, lr, momentum=0.9, weight_decay=0.0, trust_coefficient=1e-3):
    # Biases have the plain rate.
    ratio = trust_coefficient * w.norm() / (g.norm() + weight_decay * w.norm()) if w.dim() > 1 else 1
    state["momentum"] = momentum * state.get("momentum", 0) + lr * ratio * (g + weight_decay * w)
    return w - state["momentum"]


def lion(w, g, state, t, lr, betas=(0.9, 0.99), weight_decay=0.0):
    m = state.setdefault("m", torch.zeros_like(w))
    w = (1 - lr * weight_decay) * w - lr * torch.sign(betas[0] * m + (1 - betas[0]) * g)
    m += (1 - betas[1]) * (g - m)
    return w


class OptimizersTest(unittest.TestCase):
    def by_formula(self, update, settings):
        module, states, losses = seeded(Net).double(), {}, []
        for t in range(1, STEPS + 1):
            loss = module(**{name: value.double() for name, value in batch(seed=t).items()})["loss"]
            gradients = torch.autograd.grad(loss, list(module.parameters()))
            with torch.no_grad():
                for (name, w), g in zip(module.named_parameters(), gradients):
                    w.copy_(update(w, g, states.setdefault(name, {}), t, **settings))
            losses.append(loss.item())
        return module, losses

    def by_ramet(self, make, layout=""):
        module = seeded(Net)
        step = rt.training_model(module, make(module.parameters()), example=batch(), loss="loss",
                                 options=rt.Options(threads=1, layout=layout))
        losses = [step(**batch(seed=t)).loss for t in range(1, STEPS + 1)]
        step.copy_to(module)
        return module, losses, step

    def compare(self, make, module, expected):
        mine, losses, step = self.by_ramet(make)
        for found, wanted in zip(losses, expected, strict=True):
            self.assertAlmostEqual(found, wanted, delta=2e-5 * wanted)
        for name, value in module.state_dict().items():
            torch.testing.assert_close(mine.state_dict()[name], value.float(), rtol=1e-4, atol=1e-5, msg=name)
        self.assertLess(losses[-1], 1.5 * losses[0])
        return step

    def test_lamb_lars_and_lion_are_their_formulas(self):
        for kind, update, settings in ((rt.optim.LAMB, lamb, {"lr": 0.02}),
                                       (rt.optim.LAMB, lamb, {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.1}),
                                       (rt.optim.LARS, lars, {"lr": 0.5, "weight_decay": 0.01, "trust_coefficient": 0.02}),
                                       (rt.optim.Lion, lion, {"lr": 0.01, "weight_decay": 0.1})):
            with self.subTest(kind.__name__, **settings):
                self.compare(lambda weights: kind(weights, **settings), *self.by_formula(update, settings))

    @needs("transformers")
    def test_adafactor_is_that_of_transformers(self):
        from transformers import Adafactor
        for settings in ({"lr": 0.01, "scale_parameter": False, "relative_step": False}, {"lr": 0.05, "relative_step": False, "weight_decay": 0.1}):
            module, losses = seeded(Net), []
            optimizer = Adafactor(module.parameters(), **settings)
            for t in range(1, STEPS + 1):
                loss = module(**batch(seed=t))["loss"]
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            with self.subTest(**settings):
                self.compare(lambda weights: rt.optim.Adafactor(weights, **settings), module, losses)

    def test_their_states_go_on(self):
        for kind in (rt.optim.LAMB, rt.optim.LARS, rt.optim.Lion, rt.optim.Adafactor):
            _, losses, step = self.by_ramet(lambda weights: kind(weights, lr=0.01))
            states, weights = step.optimizer_state_dict(), step.state_dict()
            module = seeded(Net)
            module.load_state_dict(weights)
            again = rt.training_model(module, kind(module.parameters(), lr=0.01), example=batch(), loss="loss", options=rt.Options(threads=1))
            again.load_optimizer_state_dict(states)
            with self.subTest(kind.__name__):
                self.assertEqual(again(**batch(seed=9)).loss, step(**batch(seed=9)).loss)
                self.assertEqual(again.weights_hash(), step.weights_hash())


if __name__ == "__main__":
    unittest.main()
