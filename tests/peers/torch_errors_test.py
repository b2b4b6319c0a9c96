"""What ramet.torch refuses, with the exact text: each case names the place, and says what to do."""

import random
import re
import unittest

import torch_support
from torch_support import Net, Rows, batch, seeded
import numpy
import torch
from torch import nn

import ramet
import ramet.torch as rt

X = {"x": torch.ones(2, 3)}


def compile_rows(function, example=None, **options):
    module = Rows(function)
    return rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=example or X,
                             loss=lambda out, given: out.sum(), options=rt.Options(threads=1, **options))


def compile_net(change=lambda module: None, optimizer=None, example=None, loss="loss", **options):
    module = seeded(Net)
    module = change(module) or module
    made = optimizer(module) if optimizer else torch.optim.SGD(module.parameters(), lr=0.1)
    return rt.training_model(module, made, example=example or batch(), loss=loss,
                             options=rt.Options(threads=1, **options))


def cycled(module):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10)
    return optimizer


def scaled(self, x):
    return x * self.w


def item(self, x):
    return x * self.w * (self.w * x).sum().item()


def branch(self, x):
    if (self.w * x).sum() > 0:
        x = x * 2
    return x * self.w


def chosen(self, x):
    return (self.w * x)[x > 0]


def converted(self, x):
    return x * self.w * float(x.mean())


def listed(self, x):
    return x * sum(self.w.tolist())


def drawn(self, x):
    return x * self.w * random.random()


def drawn_by_numpy(self, x):
    return x * self.w * numpy.random.rand()


def hooked(self, x):
    h = x * self.w
    h.register_hook(lambda gradient: gradient * 2)
    return h


class Own(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 3


def own_gradient(self, x):
    return Own.apply(x * self.w)


def inner_gradient(self, x):
    h = x * self.w
    return h * torch.autograd.grad(h.sum(), self.w)[0]


def unknown_op(self, x):
    return x * self.w + torch.special.bessel_j0(self.v)


def helper(x):
    return torch.special.bessel_j0(x)


def unknown_ops(self, x):
    with torch.no_grad():
        scale = torch.special.bessel_j1(self.b)
    return helper(x * self.w) + helper(self.v) * scale + torch.special.bessel_j0(x)


def unique(self, x):
    return torch.unique(x * self.w)


def nothing_trained(self, x):
    return (x * self.w).detach()


def written(self, x):
    h = x * self.w
    with torch.no_grad():
        h[:, 0] = 0
    return h


def packs(self, x):
    packed = nn.utils.rnn.pack_padded_sequence((x * self.w)[:, :, None], (x > 0).sum(1), True, enforce_sorted=False)
    return nn.LSTM(1, 1, batch_first=True)(packed)[1][0]


def fails(self, x):
    return x.reshape(7) * self.w


class DropsLayers(Net):
    def __init__(self):
        super().__init__()
        self.layerdrop = 0.1


class Double(Net):
    def forward(self, x, y):
        out = super().forward(x, y)
        return {"a": out["loss"], "b": out["loss"] * 2}


def hooks(module):
    module.first.register_full_backward_hook(lambda *each: None)


def parameter_hook(module):
    module.first.weight.register_hook(lambda gradient: gradient)


def change_betas():
    optimizer = []

    def make(module):
        optimizer.append(torch.optim.AdamW(module.parameters(), lr=0.1))
        return optimizer[0]
    step = compile_net(optimizer=make)
    optimizer[0].param_groups[0]["betas"] = (0.5, 0.9)
    return step(**batch())


def foreign(module):
    return torch.optim.SGD(list(Net().parameters())[:2] + list(module.parameters()), lr=0.1)


def hooked_optimizer(module):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *each: None)
    return optimizer


SGD = torch.optim.SGD
ADAM = torch.optim.Adam

CASES = {
    # what the forward pass does
    "item": lambda: compile_rows(item),
    "branch on a tensor": lambda: compile_rows(branch),
    "float of a tensor": lambda: compile_rows(converted),
    "tolist": lambda: compile_rows(listed),
    "choosing elements": lambda: compile_rows(chosen),
    "unique": lambda: compile_rows(unique),
    "a packed sequence": lambda: compile_rows(packs),
    "random of Python": lambda: compile_rows(drawn),
    "random of NumPy": lambda: compile_rows(drawn_by_numpy),
    "a hook on a tensor": lambda: compile_rows(hooked),
    "autograd.Function": lambda: compile_rows(own_gradient),
    "a gradient inside": lambda: compile_rows(inner_gradient),
    "an unsupported operator": lambda: compile_rows(unknown_op),
    "several unsupported operators": lambda: rt.training_model(
        (module := Rows(unknown_ops)), SGD(module.parameters(), lr=0.1), example=X,
        loss=lambda out, given: (out + torch.special.zeta(given["x"], out)).sum()),
    "an unsupported operator of PyTorch's own module": lambda: rt.inference_model(
        nn.Sequential(nn.ReLU(), nn.FractionalMaxPool2d(2, output_size=2)), example=torch.ones(2, 3, 5, 5)),
    "a loss without a gradient": lambda: compile_rows(nothing_trained),
    "writing under no_grad": lambda: compile_rows(written),
    "a module that fails": lambda: compile_rows(fails),
    "LayerDrop": lambda: compile_net(lambda module: DropsLayers()),
    # modules
    "no module": lambda: rt.training_model(lambda x: x, None, example=X),
    "TorchScript": lambda: rt.training_model(torch.jit.trace(nn.Linear(3, 3), torch.ones(2, 3)), None, example=X),
    "a lazy module": lambda: rt.inference_model(nn.LazyLinear(3), example=X),
    "the meta device": lambda: rt.inference_model(nn.Linear(3, 3, device="meta"), example=X),
    "a module in bf16": lambda: compile_net(lambda module: module.bfloat16()),
    "backward hooks": lambda: compile_net(hooks),
    "hooks on a parameter": lambda: compile_net(parameter_hook),
    # optimizers
    "no optimizer": lambda: compile_net(optimizer=lambda module: "adam"),
    "an unknown optimizer": lambda: compile_net(optimizer=lambda module: torch.optim.Rprop(module.parameters())),
    "amsgrad": lambda: compile_net(optimizer=lambda module: ADAM(module.parameters(), amsgrad=True)),
    "maximize and dampening": lambda: compile_net(
        optimizer=lambda module: SGD(module.parameters(), lr=0.1, momentum=0.9, maximize=True, dampening=0.1)),
    "parameters of another module": lambda: compile_net(optimizer=foreign),
    "hooks of the optimizer": lambda: compile_net(optimizer=hooked_optimizer),
    "changed options": change_betas,
    # losses
    "no such output": lambda: compile_net(loss="los"),
    "no such index": lambda: compile_net(loss=5),
    "several scalars": lambda: compile_net(lambda module: Double(), loss=None),
    "a loss that is no scalar": lambda: compile_net(loss="out"),
    "a loss function that returns a number": lambda: compile_net(loss=lambda out, given: 1.0),
    # examples and batches
    "inputs of different sizes": lambda: compile_net(example=batch() | {"y": torch.ones(3, 3)}),
    "f64": lambda: compile_net(example={name: each.double() for name, each in batch().items()}),
    "a sparse input": lambda: rt.inference_model(nn.Linear(3, 3), example=torch.eye(3).to_sparse()),
    "an object": lambda: compile_net(example=batch() | {"y": object()}),
    "no tensor": lambda: compile_net(example={"x": 1, "y": 2}),
    "a missing input": lambda: compile_net()(x=torch.ones(4, 6)),
    "another shape": lambda: compile_net()(x=torch.ones(4, 5), y=torch.ones(4, 3)),
    "another type": lambda: compile_net()(x=torch.ones(4, 6, dtype=torch.int32), y=torch.ones(4, 3)),
    "keywords for a tuple": lambda: compile_rows(scaled, example=(torch.ones(2, 3),))(x=torch.ones(2, 3)),
    "a list for a tensor": lambda: compile_rows(scaled, example=(torch.ones(2, 3),))([torch.ones(2, 3)]),
    "a tuple for keywords": lambda: compile_net()(torch.ones(4, 6), torch.ones(4, 3)),
    "too many samples": lambda: compile_net(micro_batches=2)(**batch(12)),
    # options
    "a scheduler that cycles momentum": lambda: compile_net(optimizer=cycled),
    "an unknown precision": lambda: compile_net(precision="fp16"),
    "lanes": lambda: compile_net(micro_batches=4, lanes=3),
    "memory": lambda: compile_net(device_memory="4 gigs"),
    "a layout": lambda: compile_net(layout="q=2"),
    "a pipeline without layers": lambda: compile_net(layout="p=2"),
    "a replica without lanes": lambda: compile_net(layout="r=2", micro_batches=2),
    "shards without chunks": lambda: compile_net(layout="t=2"),
    "options of training for inference": lambda: rt.inference_model(nn.Linear(3, 3), example=X["x"],
                                                                    options=rt.Options(micro_batches=2)),
}

# What to do without an operator.
INSTEAD = ("Compute the same from operators that Ramet has (ramet.torch_operators() lists them), or compute it outside of the "
           "module and pass the result as an input")

# Class and text of each; N stands for a number of a line.
TEXTS = {
    "item": (
        ramet.UnsupportedOp,
        'torch_errors_test.py:N in item: the Python code of the model reads the value of a tensor: '
        'item(). A compiled program has no Python in it. Use tensor operations (torch.where), or decide '
        'by a number that is known before the first step'),
    "branch on a tensor": (
        ramet.UnsupportedOp,
        'torch_errors_test.py:N in branch: the Python code of the model reads the value of a tensor: '
        'bool(), as in `if tensor:`. A compiled program has no Python in it. Use tensor operations '
        '(torch.where), or decide by a number that is known before the first step'),
    "float of a tensor": (
        ramet.UnsupportedOp,
        'torch_errors_test.py:N in converted: the Python code of the model reads the value of a tensor: '
        'float(). A compiled program has no Python in it. Use tensor operations (torch.where), or decide '
        'by a number that is known before the first step'),
    "tolist": (
        ramet.UnsupportedOp,
        'torch_errors_test.py:N in listed: the Python code of the model reads the value of a tensor: '
        'item(). A compiled program has no Python in it. Use tensor operations (torch.where), or decide '
        'by a number that is known before the first step'),
    "choosing elements": (
        ramet.UnsupportedOp,
        'torch_errors_test.py:N in chosen: results whose size or value is known only when the program runs; '
        'found aten.index (1x; torch_errors_test.py:N in chosen). Keep fixed sizes: use a mask and torch.where instead of choosing '
        'elements. What is the same in every step, such as the edges of a fixed graph, may be a buffer of the module: its values are known'),
    "a packed sequence": (
        ramet.UnsupportedOp,
        "torch_errors_test.py:N in packs: a packed sequence, whose sizes depend on the lengths; found zeros(): argument "
        "'size' failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got FakeTensor\". Give the "
        "recurrent layer the padded batch, and mask what stands behind the lengths"),
    "unique": (
        ramet.UnsupportedOp,
        'torch_errors_test.py:N in unique: results whose size or value is known only when the program runs; '
        'found aten._unique2 (1x; torch_errors_test.py:N in unique). Keep fixed sizes: use a mask and torch.where instead of choosing '
        'elements. What is the same in every step, such as the edges of a fixed graph, may be a buffer of the module: its values are known'),
    "random of Python": (
        ramet.UnsupportedOp,
        "forward: the forward pass draws random numbers from Python's `random`. They would be drawn once "
        'and stay the same in every step. Draw with torch.rand, or turn the feature off (in '
        'transformers: layerdrop = 0, mask_time_prob = 0, mask_feature_prob = 0)'),
    "random of NumPy": (
        ramet.UnsupportedOp,
        'forward: the forward pass draws random numbers from NumPy. They would be drawn once and stay '
        'the same in every step. Draw with torch.rand, or turn the feature off (in transformers: '
        'layerdrop = 0, mask_time_prob = 0, mask_feature_prob = 0)'),
    "a hook on a tensor": (
        ramet.UnsupportedOp,
        'torch_errors_test.py:N in hooked: a hook on a tensor. Ramet calls no Python during a step. '
        'Remove the hook'),
    "autograd.Function": (
        ramet.UnsupportedOp,
        "torch_errors_test.py:N in own_gradient: a gradient of one's own: torch.autograd.Function Own. "
        "Ramet derives gradients from the forward pass. Write it with PyTorch's operations, or register "
        'a decomposition'),
    "a gradient inside": (
        ramet.UnsupportedOp,
        'torch_errors_test.py:N in inner_gradient: gradients inside of the forward pass. Ramet '
        'differentiates the loss once. Remove the inner gradient'),
    "an unsupported operator": (
        ramet.UnsupportedOp,
        "module 'Rows': the module uses what is not supported; found \n  aten.special_bessel_j0 "
        '(1x; torch_errors_test.py:N in unknown_op): the operator is not supported. ' + INSTEAD),
    "several unsupported operators": (
        ramet.UnsupportedOp,
        "module 'Rows': the module uses what is not supported; found \n"
        "  aten.special_bessel_j1 (1x; torch_errors_test.py:N in unknown_ops): the operator is not supported\n"
        "  aten.special_bessel_j0 (3x; torch_errors_test.py:N in helper, torch_errors_test.py:N in unknown_ops): "
        "the operator is not supported\n"
        "  aten.special_zeta (1x; torch_errors_test.py:N in <lambda>): the operator is not supported. " + INSTEAD),
    "an unsupported operator of PyTorch's own module": (
        ramet.UnsupportedOp,
        "module 'Sequential': the module uses what is not supported; found \n"
        "  aten.fractional_max_pool2d (1x; module '1' (FractionalMaxPool2d)): the operator is not supported. " + INSTEAD),
    "a loss without a gradient": (
        ramet.Error,
        "loss 'loss': the loss depends on no parameter that is trained. Check requires_grad of the "
        'parameters, and detach() and torch.no_grad() in forward'),
    "writing under no_grad": (
        ramet.UnsupportedOp,
        'torch_errors_test.py:N in written: aten.fill_.Scalar changes in place, under torch.no_grad(), a '
        'tensor that has a gradient. Compute a new tensor instead, or change the tensor outside of '
        'torch.no_grad()'),
    "a module that fails": (
        ramet.Error,
        'torch_errors_test.py:N in fails: the module fails on the example: RuntimeError; found shape '
        "'[7]' is invalid for input of size 6. Call module(**example) yourself to see the error in full"),
    "LayerDrop": (
        ramet.UnsupportedOp,
        'DropsLayers: LayerDrop: Python decides in each step which layers run; found '
        'DropsLayers.layerdrop = 0.1; expected 0. Set it to 0 before the model is built'),
    "no module": (
        ramet.UnsupportedOp,
        'module: no torch.nn.Module; found function. Write the model as a subclass of torch.nn.Module'),
    "TorchScript": (
        ramet.UnsupportedOp,
        'module: a module of TorchScript; found TopLevelTracedModule. Pass the nn.Module that it was '
        'made of'),
    "a lazy module": (
        ramet.UnsupportedOp,
        "LazyLinear: a module that Ramet cannot take; found parameter 'weight' has no shape yet: call "
        "the lazy module once on a batch; parameter 'bias' has no shape yet: call the lazy module once "
        'on a batch'),
    "the meta device": (
        ramet.UnsupportedOp,
        "Linear: a module that Ramet cannot take; found parameter 'weight' is on the meta device: give "
        "it values, with module.to_empty(device='cpu'); parameter 'bias' is on the meta device: give it "
        "values, with module.to_empty(device='cpu')"),
    "a module in bf16": (
        ramet.UnsupportedOp,
        "Net: a module that Ramet cannot take; found parameter 'first.weight' is torch.bfloat16: call "
        "module.float(); Options(precision='bf16') computes in bf16; parameter 'first.bias' is "
        "torch.bfloat16: call module.float(); Options(precision='bf16') computes in bf16; parameter "
        "'last.weight' is torch.bfloat16: call module.float(); Options(precision='bf16') computes in "
        "bf16; parameter 'last.bias' is torch.bfloat16: call module.float(); Options(precision='bf16') "
        'computes in bf16'),
    "backward hooks": (
        ramet.UnsupportedOp,
        "Net: a module that Ramet cannot take; found module 'first' (Linear) has backward hooks: remove "
        'them; Ramet calls no Python during a step'),
    "hooks on a parameter": (
        ramet.UnsupportedOp,
        "Net: a module that Ramet cannot take; found parameter 'first.weight' has hooks: remove them; "
        'Ramet calls no Python during a step'),
    "no optimizer": (
        ramet.UnsupportedOp,
        'optimizer: no optimizer of torch.optim; found str; expected SGD, Adam, AdamW, RMSprop, Adagrad, '
        'LAMB, LARS, Lion, Adafactor. Make it as for PyTorch: torch.optim.AdamW(module.parameters(), lr=1e-3)'),
    "an unknown optimizer": (
        ramet.UnsupportedOp,
        'optimizer: an optimizer that Ramet does not have; found torch.optim.rprop.Rprop; expected SGD, '
        'Adam, AdamW, RMSprop, Adagrad, LAMB, LARS, Lion, Adafactor. Use one of these, of torch.optim or '
        'ramet.torch.optim'),
    "amsgrad": (
        ramet.UnsupportedOp,
        'optimizer.param_groups[0]: options of the optimizer that Ramet does not have; found '
        'amsgrad=True (only False). Leave these options as they are by default'),
    "maximize and dampening": (
        ramet.UnsupportedOp,
        'optimizer.param_groups[0]: options of the optimizer that Ramet does not have; found '
        'dampening=0.1 (only 0), maximize=True (only False). Leave these options as they are by default'),
    "parameters of another module": (
        ramet.Error,
        "optimizer: the optimizer has parameters that are not the module's; found 2 of 6 parameters. "
        "Make the optimizer of this module's parameters(), after the module is complete"),
    "hooks of the optimizer": (
        ramet.UnsupportedOp,
        'optimizer: an optimizer with hooks; found optimizer_step_pre_hooks. Remove them; Ramet calls no '
        'Python during a step'),
    "changed options": (
        ramet.UnsupportedOp,
        'optimizer.param_groups[0]: options of the optimizer changed after the program was compiled; '
        'found beta1 0.9 -> 0.5, beta2 0.999 -> 0.9. Only the learning rate may change'),
    "no such output": (
        ramet.Error,
        "loss: no output of this name; found 'los'; expected one of loss [], out [4, 3]. transformers "
        'return a loss where the example has labels'),
    "no such index": (
        ramet.Error,
        'loss: no output of this index; found 5; expected one of loss [], out [4, 3]. Name an output, or give '
        'loss=lambda outputs, batch: ...'),
    "several scalars": (
        ramet.Error,
        'loss: several scalar outputs; found a [], b []; expected one scalar output of floating-point '
        "numbers. Say which: loss='NAME', or loss=lambda outputs, batch: ..."),
    "a loss that is no scalar": (
        ramet.ShapeError,
        "output 'out': a loss that is no scalar; found float32[4, 3]; expected one number. Take its "
        'mean: loss=lambda outputs, batch: ....mean()'),
    "a loss function that returns a number": (
        ramet.ShapeError,
        'loss: the loss function does not return a scalar tensor; found float; expected a tensor of one '
        'element. Return the mean of the losses, computed from tensors'),
    "inputs of different sizes": (
        ramet.ShapeError,
        'example: inputs with different numbers of samples; found x [4, 6], y [3, 3]; expected the same '
        'first dimension, the samples of a micro-batch, in all inputs. Say which dimension counts the samples '
        '(Options.batch_dims); make what does not count them a buffer of the module, or compute it in forward'),
    "f64": (
        ramet.ShapeError,
        "example['x']: numbers of 64 bits; found torch.float64; expected torch.float32. Call .float()"),
    "a sparse input": (
        ramet.UnsupportedOp,
        "example['input']: a sparse tensor; found torch.sparse_coo; expected a dense tensor. Call "
        '.to_dense()'),
    "an object": (
        ramet.UnsupportedOp,
        "example['y']: an example with a value that is no tensor, number or text; found object; expected "
        'tensors, arrays, numbers, texts and None, in dictionaries, tuples and lists. Take what forward needs out of '
        'the object, or make it in forward'),
    "no tensor": (
        ramet.ShapeError,
        'example: an example without a tensor; expected the inputs of one micro-batch. Give a dictionary of the '
        'keyword arguments of forward, or a tuple of its arguments'),
    "a missing input": (
        ramet.ShapeError,
        'step 1: a batch of another structure than the example; found x; expected x, y. Missing: y'),
    "another shape": (
        ramet.ShapeError,
        "step 1: x: a tensor of another shape than the example's; found float32[4, 5]; expected "
        'float32[samples, 6]. A program is compiled for one shape; pad the batch, or compile a second '
        'program'),
    "a scheduler that cycles momentum": (
        ramet.UnsupportedOp,
        'optimizer.param_groups[0]: a scheduler that changes momentum or betas; found 0.85 to 0.95. Make it with '
        'cycle_momentum=False, and the optimizer anew: only the learning rate may change'),
    "keywords for a tuple": (
        ramet.ShapeError,
        'step 1: a batch of another structure than the example; found keyword x; expected positional x. Call it as the '
        'example was given: 1 positional'),
    "a list for a tensor": (
        ramet.ShapeError,
        'step 1: a batch of another structure than the example; found positional a list (a tensor); expected positional '
        'x. Call it as the example was given: 1 positional'),
    "a tuple for keywords": (
        ramet.ShapeError,
        'step 1: a batch of another structure than the example; found positional a tensor, a tensor; expected keyword x, '
        'y. Call it as the example was given: keywords'),
    "a pipeline without layers": (
        ramet.Error,
        'layout layers: the layers do not make these parts; found a model that declares no layers to be cut at; expected 2 '
        'or more. Name the modules that are layers: Options(parts=["encoder.layer.*"]); or use p=1 and phases=1'),
    "a replica without lanes": (
        ramet.Error,
        'Options.layout r: every replica must take equally many whole lanes, 1, 2, 4 or another power of two of them; '
        'found r=2 with lanes=1. With lanes=1, r may be 1; or train with Options(lanes=2) (lanes decide bits)'),
    "shards without chunks": (
        ramet.Error,
        'Options.layout t: every tensor shard must take equally many whole chunks, 1, 2, 4 or another power of two of '
        'them; found t=2 with chunks=1. With chunks=1, t may be 1; or train with Options(chunks=2) (chunks decide bits)'),
    "another type": (        ramet.ShapeError,
        "step 1: x: a tensor of another element type than the example's; found torch.int32; expected "
        'torch.float32. Convert it: .to(torch.float32)'),
    "too many samples": (
        ramet.ShapeError,
        'step 1: samples that are not those of one step; found 12 samples; expected 8: 4 of the '
        "example's micro-batch x 2 micro-batches. Compile with Options(micro_batches=...) that fit the "
        'batch'),
    "an unknown precision": (
        ramet.Error,
        "Options.precision: an option that has no such value; found 'fp16'; expected f32, bf16, f16, f8"),
    "lanes": (
        ramet.Error,
        'Options.lanes: an option that has no such value; found 3; expected a divisor of micro_batches, 4'),
    "memory": (
        ramet.Error,
        "Options.device_memory: an option that has no such value; found '4 gigs'; expected a number of "
        'bytes, or a text such as "4GiB"'),
    "a layout": (
        ramet.Error,
        "Options.layout q: unknown key 'q' of a layout. A layout has: p, t, r, g, deal, rts, phases, "
        'recompute, offload, schedule, layers, head, sequence, device_memory, streaming, threads, '
        'per_process'),
    "options of training for inference": (
        ramet.Error,
        'inference_model: options of training; found micro_batches'),
}


class Errors(unittest.TestCase):
    maxDiff = None

    def test_each_has_its_text(self):
        self.assertEqual(set(CASES), set(TEXTS))
        self.assertGreaterEqual(len(CASES), 40)
        for name, act in CASES.items():
            with self.subTest(name):
                kind, text = TEXTS[name]
                with self.assertRaises(ramet.Error) as caught:
                    act()
                self.assertEqual(re.sub(r"(\w+\.py):\d+", r"\1:N", str(caught.exception)), text)
                self.assertIs(type(caught.exception), kind)

    def test_the_line_is_the_users(self):
        with self.assertRaises(ramet.Error) as caught:
            compile_rows(item)
        self.assertEqual(caught.exception.where, f"torch_errors_test.py:{item.__code__.co_firstlineno + 1} in item")

    def test_a_refusal_leaves_the_module_as_it_was(self):
        module = Rows(own_gradient)
        module.eval()
        with self.assertRaises(ramet.UnsupportedOp):
            rt.training_model(module, torch.optim.SGD(module.parameters(), lr=0.1), example=X,
                              loss=lambda out, given: out.sum())
        self.assertFalse(module.training)
        module.w.requires_grad_(True)
        module(X["x"]).sum().backward()
        self.assertTrue(torch.equal(module.w.grad, torch.full((3,), 6.0)))


if __name__ == "__main__":
    unittest.main()
