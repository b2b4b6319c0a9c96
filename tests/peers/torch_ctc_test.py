"""CTC losses with lengths that are tensors, as speech recognition trains with them, beside PyTorch's."""
import unittest

import torch_support
from torch_support import seeded
import torch
from torch import nn

import ramet.torch as rt

SAMPLES, FRAMES, LONGEST, WIDTH, CLASSES = 4, 12, 4, 5, 6


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(WIDTH, 8, 3, padding=1)
        self.recurrent = nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x, frames, labels, lengths):
        h = torch.relu(self.convolution(x.transpose(1, 2))).transpose(1, 2)
        return self.head(self.recurrent(h)[0]).log_softmax(-1).transpose(0, 1)


def batch(seed, samples=SAMPLES):
    torch.manual_seed(seed)
    return {"x": torch.randn(samples, FRAMES, WIDTH), "frames": torch.randint(FRAMES // 2, FRAMES + 1, (samples,)),
            "labels": torch.randint(1, CLASSES, (samples, LONGEST)), "lengths": torch.randint(1, LONGEST + 1, (samples,))}


class CtcTests(unittest.TestCase):
    def losses(self, loss_of, layout="", micro_batches=1):
        """Losses of PyTorch and of Ramet, and the hash of Ramet's weights."""
        theirs, mine = seeded(Speech), seeded(Speech)
        optimizer = torch.optim.SGD(theirs.parameters(), lr=0.02)
        samples = SAMPLES * micro_batches
        step = rt.training_model(mine, torch.optim.SGD(mine.parameters(), lr=0.02), example=batch(0), loss=loss_of,
                                 options=rt.Options(threads=1, micro_batches=micro_batches, lanes=micro_batches, layout=layout))
        pairs = []
        for i in range(10):
            given = batch(i, samples)
            optimizer.zero_grad()
            parts = [{name: each[k * SAMPLES:(k + 1) * SAMPLES] for name, each in given.items()} for k in range(micro_batches)]
            loss = sum(loss_of(theirs(**part), part) for part in parts) / micro_batches
            loss.backward()
            optimizer.step()
            pairs.append((loss.item(), step(**given).loss))
        return pairs, step.weights_hash()

    def check(self, pairs):
        for theirs, mine in pairs:
            self.assertLess(abs(theirs - mine), 1e-4 * abs(theirs), pairs)

    def test_the_module_of_pytorch(self):
        loss = nn.CTCLoss(zero_infinity=True)
        self.check(self.losses(lambda out, given: loss(out, given["labels"], given["frames"], given["lengths"]))[0])

    def test_reductions(self):
        for reduction in ("sum", "none"):
            with self.subTest(reduction):
                self.check(self.losses(lambda out, given: nn.functional.ctc_loss(
                    out, given["labels"], given["frames"], given["lengths"], reduction=reduction).mean())[0])

    def test_lengths_that_are_made_in_the_module(self):
        frames = lambda out: torch.full((SAMPLES,), FRAMES, dtype=torch.long)
        self.check(self.losses(lambda out, given: nn.functional.ctc_loss(out, given["labels"], frames(out), given["lengths"]))[0])

    def test_one_hash_on_layouts(self):
        loss = nn.CTCLoss()
        of = lambda out, given: loss(out, given["labels"], given["frames"], given["lengths"])
        one, hash_of_one = self.losses(of, micro_batches=2)
        self.check(one)
        self.assertEqual(self.losses(of, layout="r=2 rts=optimizer", micro_batches=2)[1], hash_of_one)


if __name__ == "__main__":
    unittest.main()
