"""ramet.torch's interface over PyTorch itself, to test the loop of ramet.transformers apart from the compiler."""

import copy
import dataclasses
import os
import sys
import types

import torch


@dataclasses.dataclass
class Options:
    layout: str = ""
    micro_batches: int = 1
    precision: str = "f32"
    device_memory: object = None
    max_grad_norm: float = 0.0
    loss_scale: float = 1.0
    loss_mean: str = None
    seed: int = 0
    lanes: int = 1
    chunks: int = 1
    threads: int = 0
    parts: object = ()
    axes: object = None


@dataclasses.dataclass
class StepResult:
    loss: float
    grad_norm: float


def _checked(batch, shapes, rows):
    for name, value in batch.items():
        assert tuple(value.shape[1:]) == shapes[name], (name, value.shape, shapes[name])
        assert value.shape[0] == rows, (name, value.shape, rows)
    assert set(batch) == set(shapes)


class Step:
    memory = "a plan"

    def __init__(self, module, optimizer, example, loss, options):
        self.given, self.own, self.loss, self.options = optimizer, copy.deepcopy(module), loss, options
        self.rows = len(next(iter(example.values())))
        self.shapes = {name: tuple(value.shape[1:]) for name, value in example.items()}
        self.samples_per_step = self.rows * options.micro_batches
        places = {id(weight): mine for weight, mine in zip(module.parameters(), self.own.parameters())}
        groups = [{**group, "params": [places[id(weight)] for weight in group["params"]]} for group in optimizer.param_groups]
        self.optimizer = type(optimizer)(groups)

    def __call__(self, **batch):
        _checked(batch, self.shapes, self.samples_per_step)
        for mine, given in zip(self.optimizer.param_groups, self.given.param_groups):
            mine["lr"] = given["lr"]
        self.own.train()
        self.optimizer.zero_grad()
        total, items = 0.0, 0.0
        for i in range(self.options.micro_batches):
            outputs = self.own(**{name: value[i * self.rows:(i + 1) * self.rows] for name, value in batch.items()})
            count = outputs[self.options.loss_mean] if self.options.loss_mean else torch.tensor(1.0)
            (outputs[self.loss] * count).backward()
            total, items = total + float(outputs[self.loss].detach()) * float(count), items + float(count)
        weights = [weight for weight in self.own.parameters() if weight.grad is not None]
        for weight in weights:
            weight.grad /= items
        norm = torch.nn.utils.clip_grad_norm_(weights, self.options.max_grad_norm or float("inf"))
        self.optimizer.step()
        return StepResult(total / items, float(norm))

    def predict(self, **batch):
        _checked(batch, self.shapes, self.rows)
        with torch.no_grad():
            return _arrays(self.own.eval()(**batch))

    def copy_to(self, module):
        module.load_state_dict(self.own.state_dict())

    def save(self, folder):
        os.makedirs(folder)
        torch.save((self.own.state_dict(), self.optimizer.state_dict()), os.path.join(folder, "states.pt"))

    def restore(self, folder):
        weights, optimizer = torch.load(os.path.join(folder, "states.pt"))
        self.own.load_state_dict(weights)
        self.optimizer.load_state_dict(optimizer)


def _arrays(outputs):
    """As the compiled program gives them: without scalars."""
    return {name: value.numpy() for name, value in outputs.items() if value.dim()}


def training_model(module, optimizer, example, loss, options):
    return Step(module, optimizer, example, loss, options)


def inference_model(module, example, options=None):
    shapes, rows = {name: tuple(value.shape[1:]) for name, value in example.items()}, len(next(iter(example.values())))
    own = copy.deepcopy(module).eval()

    def infer(**batch):
        _checked(batch, shapes, rows)
        with torch.no_grad():
            return _arrays(own(**batch))

    return infer


def install():
    """Makes `import ramet.torch` give this module, and `import ramet` the folder python/ramet, unless Ramet is built."""
    import pathlib
    if "ramet" not in sys.modules:
        try:
            import ramet  # noqa: F401
        except ImportError:
            package = types.ModuleType("ramet")
            package.__path__ = [str(pathlib.Path(__file__).resolve().parent.parent.parent / "python" / "ramet")]
            sys.modules["ramet"] = package
    double = types.ModuleType("ramet.torch")
    double.Options, double.training_model, double.inference_model = Options, training_model, inference_model
    sys.modules["ramet.torch"] = double
    sys.modules["ramet"].torch = double
