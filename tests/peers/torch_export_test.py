"""Traced programs of ramet.torch have PyTorch's values and gradients, and the module stays as it was."""

import copy
import unittest

import torch_support
from torch_support import Net, Rows, batch, seeded
import torch
from torch import nn

import ramet
import ramet.torch as rt  # noqa: F401
from ramet.torch import _export, _marks
from ramet.torch._structure import InputTree, split_call


def trace(module, example, training=True, **more):
    return _export.trace(module, InputTree.of(module, example, {}), split_call(example), training, {}, **more)


def gradients(module, values):
    module.zero_grad()
    values.sum().backward()
    return {name: None if each.grad is None else each.grad.clone() for name, each in module.named_parameters()}


def detached(self, x):
    h = self.v * x
    return h.detach() * self.w + h


def detached_in_place(self, x):
    h = (self.v * x) * 2
    h.detach_()
    return h * self.w


def data_of_a_parameter(self, x):
    return self.v.data * x + self.w


def data_of_a_value(self, x):
    return (self.v * x).data + self.w * x


def no_grad(self, x):
    with torch.no_grad():
        a = self.w * x
        c = a * self.v
    return a * self.v + c


def nested(self, x):
    with torch.no_grad():
        a = self.w * x
        with torch.enable_grad():
            b = self.w * a
        c = b * 2
    return a + b + c


@torch.no_grad()
def scale_of(x, v):
    return x.abs().mean() * v, x.abs().amax() * v


def decorated(self, x):
    mean, most = scale_of(self.w * x, self.v)
    return self.w * mean + most


def inference_mode(self, x):
    with torch.inference_mode():
        c = self.v * 2
    return c.clone() * self.w


def switched(self, x):
    torch.set_grad_enabled(False)
    d = self.v * 3
    torch.set_grad_enabled(True)
    return d * self.w


def views(self, x):
    z = torch.zeros(3)
    z[:2] = (self.w * x)[1:]
    z[2:].add_(self.v[0])
    return z.relu_() * self.w


def in_place(self, x):
    h = self.w * x
    h += self.v
    h.mul_(2)
    return h


def buffer_under_no_grad(self, x):
    h = self.v * x
    with torch.no_grad():
        self.b.mul_(0.9).add_(0.1 * h.mean())
    return h * self.w


FUNCTIONS = [detached, detached_in_place, data_of_a_parameter, data_of_a_value, no_grad, nested, decorated, inference_mode,
             switched, views, in_place, buffer_under_no_grad]

# PyTorch has no gradient of the functional op `copy`; tests of training compare these.
NOT_DIFFERENTIABLE_BY_TORCH = [views]


class Gradients(unittest.TestCase):
    def test_values_gradients_and_who_has_none_are_those_of_pytorch(self):
        x = torch.tensor([0.3, -1.2, 2.0])[None]
        for function in FUNCTIONS:
            with self.subTest(function.__name__):
                module = Rows(lambda self, x, function=function: function(self, x[0]))
                traced = trace(module, {"x": x})
                mine = traced.exported.module()
                values = mine(x)[0]
                theirs = module(x)
                torch.testing.assert_close(values, theirs)
                expected = gradients(module, theirs)
                if function in NOT_DIFFERENTIABLE_BY_TORCH:
                    continue
                self.assertEqual(str(gradients(mine, values)), str(expected))
                reached = _marks.reached_by_gradient(traced.exported, traced.output_node("output"))
                self.assertEqual(reached, {name for name, each in expected.items() if each is not None})

    def test_a_buffer_changes_as_in_pytorch(self):
        module = Rows(lambda self, x: buffer_under_no_grad(self, x[0]))
        x = torch.ones(1, 3)
        mine = trace(module, {"x": x}).exported.module()
        mine(x)
        module(x)
        torch.testing.assert_close(dict(mine.named_buffers())["b"], module.b)

    def test_changes_that_would_lose_a_gradient_are_refused(self):
        def written_under_no_grad(self, x):
            h = self.w * x
            with torch.no_grad():
                h[0] = 0
            return h

        def written_through_detach(self, x):
            h = self.w * x
            h.detach().add_(1)
            return h

        for function, text in ((written_under_no_grad, "under torch.no_grad(), a tensor that has a gradient"),
                               (written_through_detach, "after detach() gave a second view of it")):
            with self.subTest(function.__name__), self.assertRaises(ramet.UnsupportedOp) as caught:
                trace(Rows(function), {"x": torch.ones(3)})
            self.assertIn(text, str(caught.exception))


class Modules(unittest.TestCase):
    def test_the_module_stays_as_it_was(self):
        module = seeded(lambda: Net(norm=True, dropout=0.5))
        module.eval()
        module.dropout.train()
        module.first.weight.requires_grad_(False)
        module.first.weight.grad = torch.ones_like(module.first.weight)
        before = copy.deepcopy(module.state_dict())
        kept = {name: id(each) for name, each in module.state_dict(keep_vars=True).items()}
        modes = {name: each.training for name, each in module.named_modules()}
        random = torch.get_rng_state()
        for training in (True, False):
            trace(module, batch(), training)
        self.assertEqual({name: id(each) for name, each in module.state_dict(keep_vars=True).items()}, kept)
        for name, each in module.state_dict().items():
            self.assertTrue(torch.equal(each, before[name]), name)
        self.assertEqual({name: each.training for name, each in module.named_modules()}, modes)
        self.assertFalse(module.first.weight.requires_grad)
        self.assertTrue(torch.equal(random, torch.get_rng_state()))
        self.assertNotIn("forward", module.__dict__)

    def test_modes_decide_what_is_traced(self):
        module = Net(norm=True, dropout=0.5)
        training, evaluation = (trace(module, batch(), mode).counts() for mode in (True, False))
        self.assertIn("aten.dropout", str(training) + "aten.dropout")
        self.assertTrue(any("dropout" in name for name in training))
        self.assertFalse(any("dropout" in name for name in evaluation))

    def test_a_frozen_batch_norm_stays_frozen_in_a_module_that_trains(self):
        module = Net(norm=True)
        module.norm.eval()
        self.assertEqual(trace(module, batch()).exported.graph_signature.buffers_to_mutate, {})
        module.eval()
        self.assertEqual(len(trace(module, batch()).exported.graph_signature.buffers_to_mutate), 3)

    def test_wrappers_are_taken_off(self):
        module = Net()
        for wrapped in (torch.compile(module), nn.DataParallel(module)):
            self.assertIs(_export.unwrapped(wrapped), module)

    def test_names_are_the_modules_own(self):
        traced = trace(Net(norm=True), batch())
        signature = traced.exported.graph_signature
        self.assertEqual(set(signature.inputs_to_parameters.values()),
                         {name for name, _ in Net(norm=True).named_parameters()})
        self.assertEqual(set(signature.buffers_to_mutate.values()),
                         {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"})
        self.assertEqual(traced.inputs, ["x", "y"])
        self.assertEqual(traced.outputs, ["loss", "out"])
        paths = {path for node in traced.exported.graph.nodes
                 for path, _ in node.meta.get("nn_module_stack", {}).values()}
        self.assertEqual(paths, {"", "first", "norm", "dropout", "last"} - ({"dropout"} - paths))
        self.assertNotIn('"module.', _export.text_of(traced.exported))

    def test_structures_of_inputs_and_outputs_return(self):
        class Nested(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(()))

            def forward(self, first, pair, *, flag=False, options=None):
                a, b = pair["a"], pair["b"][0]
                return (first * self.scale + a, [b, {"c": b + 1, "none": None, "flag": flag}])

        a, b, c = (torch.full((2, 3), float(i)) for i in range(3))
        example = {"first": a, "pair": {"a": b, "b": [c]}, "flag": True, "options": "x"}
        traced = trace(Nested(), example)
        self.assertEqual(traced.outputs, ["output_0", "output_1.0", "output_1.1.c"])
        out = traced.tree.fill(dict(zip(traced.outputs, traced.exported.module()(a, b, c))))
        self.assertTrue(torch.equal(out[0], a + b))
        self.assertEqual(out[1][1]["flag"], True)
        self.assertIsNone(out[1][1]["none"])

    def test_the_text_of_a_program_does_not_depend_on_the_trace(self):
        texts = {_export.text_of(trace(seeded(Net), batch()).exported) for _ in range(2)}
        self.assertEqual(len(texts), 1)


class Tensors(unittest.TestCase):
    def test_tied_weights_have_one_storage(self):
        module = Net()
        module.last = nn.Linear(8, 8)
        module.head = nn.Linear(8, 8)
        module.head.weight = module.last.weight
        found = {name: storage for name, _, storage, _ in _export.tensors_of(module, {}, set())}
        self.assertEqual(found["head.weight"], found["last.weight"])
        self.assertEqual(len(set(found.values())), len(found) - 1)

    def test_parameters_that_overlap_are_refused(self):
        module = nn.Module()
        whole = torch.zeros(4, 4)
        module.a, module.b = nn.Parameter(whole), nn.Parameter(whole.t())
        with self.assertRaisesRegex(ramet.UnsupportedOp, "'a' and 'b': two parameters that share memory"):
            _export.tensors_of(module, {}, set())

    def test_weights_are_not_copied(self):
        module = Net()
        pointers = {name: each.data_ptr() for name, each in module.named_parameters()}
        for name, tensor, _, _ in _export.tensors_of(module, {}, set()):
            self.assertEqual(tensor.data_ptr(), pointers[name])


if __name__ == "__main__":
    unittest.main()
