"""Loops of PyTorch in a module, `scan` and `while_loop`: unrolled, with the numbers of the loop written out."""

import unittest

import torch_support  # noqa: F401
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import ramet
import ramet.torch as rt

STEPS = 5


class Loop(nn.Module):
    """`function(self, x)` of x [B, STEPS, 3] is the loss."""

    def __init__(self, function):
        super().__init__()
        self.w, self.v = nn.Parameter(torch.linspace(0.3, 0.9, 3)), nn.Parameter(torch.linspace(-0.3, 0.9, 3))
        self.function = function

    def forward(self, x):
        return {"loss": self.function(self, x)}


def scanned(self, x):
    def combine(carry, element):
        following = torch.tanh(carry * self.w + element * self.v)
        return following, 2 * following
    last, rows = scan(combine, torch.zeros(x.shape[0], 3), x.movedim(1, 0))
    return (rows * rows).mean() + last.sum()


def scanned_by_hand(self, x):
    carry, rows = torch.zeros(x.shape[0], 3), []
    for step in range(STEPS):
        carry = torch.tanh(carry * self.w + x[:, step] * self.v)
        rows.append(2 * carry)
    return (torch.stack(rows) ** 2).mean() + carry.sum()


def scanned_from_the_end(self, x):
    last, rows = scan(lambda carry, element: (carry * self.w + element, carry + 0), torch.zeros(x.shape[0], 3),
                      x.movedim(1, 0), reverse=True)
    return 0.05 * ((rows * rows * torch.arange(STEPS).reshape(-1, 1, 1)).mean() + (last * self.v).mean())


def scanned_from_the_end_by_hand(self, x):
    carry, rows = torch.zeros(x.shape[0], 3), []
    for step in reversed(range(STEPS)):
        rows.insert(0, carry)
        carry = carry * self.w + x[:, step]
    return 0.05 * ((torch.stack(rows) ** 2 * torch.arange(STEPS).reshape(-1, 1, 1)).mean() + (carry * self.v).mean())


def repeated(self, x):
    return while_loop(lambda i, z: i < 4, lambda i, z: (i + 1, torch.sin(z * self.v + self.w)), (torch.tensor(0), x))[1].mean()


def repeated_by_hand(self, x):
    for _ in range(4):
        x = torch.sin(x * self.v + self.w)
    return x.mean()


def repeated_by_data(self, x):
    return while_loop(lambda z: z.sum() < 10, lambda z: (z * 2,), (x * x,))[0].mean() * self.w.sum() * self.v.sum()


def repeated_for_long(self, x):
    return while_loop(lambda i, z: i < 20000, lambda i, z: (i + 1, z * self.v), (torch.tensor(0), x))[1].mean()


def losses_of(function, x, steps=4):
    module = Loop(function)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = module(x)["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def compiled(function, x):
    module = Loop(function)
    return rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.2), example={"x": x}, loss="loss",
                             options=rt.Options(threads=1))


class Loops(unittest.TestCase):
    def setUp(self):
        self.x = torch.randn(4, STEPS, 3, generator=torch.Generator().manual_seed(1))

    def test_have_the_numbers_of_the_loop_written_out(self):
        for loop, by_hand in ((scanned, scanned_by_hand), (scanned_from_the_end, scanned_from_the_end_by_hand),
                              (repeated, repeated_by_hand)):
            with self.subTest(loop.__name__):
                step = compiled(loop, self.x)
                found = [step(x=self.x).loss for _ in range(4)]
                wanted = losses_of(by_hand, self.x)
                self.assertNotAlmostEqual(wanted[0], wanted[-1], places=4)
                for one, other in zip(found, wanted):
                    self.assertAlmostEqual(one, other, delta=2e-6 * abs(other) + 1e-7)

    def test_that_depend_on_data_or_are_too_long_are_refused(self):
        for loop, text in ((repeated_by_data, "a loop whose number of repetitions depends on data"),
                           (repeated_for_long, "a loop is too long to unroll; found .* repetitions of 2 operations")):
            with self.subTest(loop.__name__), self.assertRaisesRegex(ramet.UnsupportedOp, f"torch_loops_test.py.*{text}"):
                compiled(loop, self.x)


if __name__ == "__main__":
    unittest.main()
