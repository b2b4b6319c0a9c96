"""Questions that a module asks of its buffers in Python: answered while it is traced, unless training changes the buffer."""

import unittest

from torch_support import Rows, torch

import ramet
import ramet.torch as rt


def module_with(function, **buffers):
    module = Rows(function)
    for name, value in buffers.items():
        module.register_buffer(name, value)
    return module


class KnownTest(unittest.TestCase):
    def compare(self, function, **buffers):
        module, x = module_with(function, **buffers), torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
        infer = rt.inference_model(module.eval(), example=(x,))
        self.assertTrue(torch.allclose(infer(x), module(x), atol=1e-6))

    def test_sizes_of_masks_and_numbers(self):
        keep = torch.tensor([True, False, True])
        self.compare(lambda m, x: x[:, m.keep] * m.w[m.keep], keep=keep)
        self.compare(lambda m, x: x[:, m.keep.nonzero()[:, 0]] + int(m.keep.sum()), keep=keep)
        self.compare(lambda m, x: x * m.w if m.keep.any() else x, keep=keep)
        self.compare(lambda m, x: x[:, torch.unique(m.rows)] * len(torch.unique(m.rows)), rows=torch.tensor([2, 0, 2]))

    def test_values_that_the_forward_pass_writes_itself(self):
        def function(m, x):
            degree = m.rows.new_zeros(3)
            degree.scatter_add_(0, m.rows, torch.ones_like(m.rows))
            degree[0] += 5
            return x[:, degree > 1] * int(degree.max())

        self.compare(function, rows=torch.tensor([2, 1, 2]))

    def test_what_data_decides_is_still_refused(self):
        def function(m, x):
            seen = torch.zeros(3)
            seen += x[0]  # nothing is known of it from here on
            return x[:, seen > 0]

        with self.assertRaisesRegex(ramet.UnsupportedOp, "size or value|depends on data|value of a tensor"):
            rt.inference_model(module_with(function, keep=torch.ones(3, dtype=torch.bool)).eval(), example=(torch.randn(4, 3),))

    def test_a_buffer_that_training_changes_is_not_known(self):
        def function(m, x):
            m.calls += 1
            return {"loss": (x * m.w).sum() * int(m.calls)}

        module = module_with(function, calls=torch.tensor(0))
        with self.assertRaisesRegex(ramet.UnsupportedOp, "reads the value of a tensor"):
            rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=(torch.randn(4, 3),), loss="loss")
        self.assertEqual(int(module.calls), 0)


if __name__ == "__main__":
    unittest.main()
