"""How a module is compiled and trained."""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence

from ramet.errors import Error

PRECISIONS = ("f32", "bf16", "f16", "f8")
UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9}


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of training. The first group decides the numbers; the second decides where and when they are computed,
    and changes no bit."""

    micro_batches: int = 1
    """Micro-batches of a step. A step takes `micro_batches` times the samples of the example; its gradient is the mean of
    theirs."""
    precision: str = "f32"
    """In which matrix products are computed: "f32", "bf16", "f16" or "f8". Weights and sums stay f32."""
    max_grad_norm: float | None = None
    """Gradients of a larger norm are scaled down to it; None or 0: never."""
    loss_scale: float | None = 1.0
    """Factor on the loss before differentiation; None: automatic, for "f16"."""
    loss_mean: str | Callable | None = None
    """The loss of a micro-batch is a mean over this many items: name of a scalar output, or a function of (outputs, batch).
    All items of a step then count equally. None: all micro-batches count equally."""
    pad_last: Mapping[str, float] | None = None
    """An incomplete batch is filled up with samples that count nothing: {name of an input: number of its added samples}, such
    as {"labels": -100}. Other inputs repeat their last sample. Needs `loss_mean`, which must not count what is added."""
    outputs: Sequence[str] = ()
    """Names of outputs of the module, in training mode, that each step gives as `result.outputs`, such as ("logits",). They
    take memory for every micro-batch. Scalars are in `result.metrics` without being asked for."""
    moments: str = "f32"
    """Of the optimizer: "f32", or "bf16" (SGD, Adam, AdamW, LAMB), rounded stochastically: half the memory."""
    batch_dims: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Which dimension counts the samples of an input or an output, where it is not the first: {name: dimension}, such as
    {"src": 1, "tgt": 1, "output": 1} for a transformer or a recurrent layer without batch_first."""
    seed: int = 0
    """Of dropout and other random numbers."""
    lanes: int = 1
    """Sums of gradients over micro-batches; replicas (r) divide them. Must divide micro_batches."""
    chunks: int = 1
    """Sums of a product's contraction; tensor shards (t) divide them."""

    layout: str = ""
    """Such as "p=2 r=2 rts=optimizer"; "": one device."""
    threads: int = 0
    """Of all devices together; 0: as the layout says, else all processors."""
    device_memory: int | str | None = None
    """Bytes that a device may use, as "4GiB"; None: what is available."""
    memory: str = ""
    """"low": everything below that saves memory for little time and changes no bit, where the other options allow it. The
    program takes 70% of the memory that it would take otherwise (unless `device_memory` or `layout` says what to save), or
    as little as it can while activations that are computed again add at most a twelfth to the time of the forward and
    backward pass and no more than they are worth; the module is released; there is no predict(); gradients are not kept (`update_in_backward`) unless they
    are clipped or summed; `torch.export` runs in a fork, so that what it imports and keeps is not in this process; and
    libraries' pages that are in no use leave it. For less memory at any price give `device_memory`, or
    layout="recompute=layer". "": the options below alone."""
    predicts: bool = True
    """Whether there is predict(). Its outputs (such as logits in f32) may need more memory than a step."""
    update_in_backward: bool = False
    """Each weight is updated as soon as its gradient is there, so gradients are not all in memory at once. Needs one
    micro-batch, no max_grad_norm and a fixed loss_scale. A gradient that is not finite then leaves some weights updated."""
    release_module: bool = False
    """The module gives the memory of its trained weights back when the program has them. It has NaN in their place, until
    `copy_to(module)`. False: it keeps them, beside the program's."""
    device: str = ""
    """Kind of devices, such as "cpu"; "": the default."""
    axes: Mapping[str, Sequence] = dataclasses.field(default_factory=dict)
    """Meaning of the dimensions of weights, for tensor shards: {pattern of names: axes}, as {"*.q_proj.weight": ("heads",
    "embed")}. Axes of other weights are found from chains of products."""
    parts: Sequence[str] = ()
    """Paths of the modules that pipelines and phases may cut between, as "encoder.layer.*"; empty: lists of modules of one
    class; of three or more, the first may be of another."""

    def __post_init__(self):
        for name in ("micro_batches", "lanes", "chunks"):
            self._check(name, isinstance(getattr(self, name), int) and getattr(self, name) >= 1, "an integer, 1 or more")
        self._check("lanes", self.micro_batches % self.lanes == 0, f"a divisor of micro_batches, {self.micro_batches}")
        self._check("threads", isinstance(self.threads, int) and self.threads >= 0, "an integer, 0 or more")
        self._check("seed", isinstance(self.seed, int) and 0 <= self.seed < 2**63, "an integer from 0 to 2^63 - 1")
        self._check("precision", self.precision in PRECISIONS, ", ".join(PRECISIONS))
        self._check("max_grad_norm", self.max_grad_norm is None or
                    (self._is_number(self.max_grad_norm) and self.max_grad_norm >= 0), "a number, 0 or more, or None")
        self._check("loss_scale", self.loss_scale is None or (self._is_number(self.loss_scale) and self.loss_scale > 0),
                    "a positive number, or None for an automatic one")
        self._check("moments", self.moments in ("f32", "bf16"), "f32, bf16")
        self._check("update_in_backward", isinstance(self.update_in_backward, bool), "True or False")
        self._check("predicts", isinstance(self.predicts, bool), "True or False")
        self._check("release_module", isinstance(self.release_module, bool), "True or False")
        self._check("layout", isinstance(self.layout, str), 'a text such as "p=2 r=2"')
        self._check("axes", isinstance(self.axes, Mapping), "a dictionary from patterns of names to axes")
        self._check("loss_mean", self.loss_mean is None or isinstance(self.loss_mean, str) or callable(self.loss_mean),
                    "the name of an output, a function of (outputs, batch), or None")
        self._check("pad_last", self.pad_last is None or (isinstance(self.pad_last, Mapping) and self.pad_last), "a dictionary "
                    "from names of inputs to numbers, or None")
        self._check("pad_last", self.pad_last is None or self.loss_mean is not None, "None without loss_mean: added samples "
                    "would count")
        self._check("batch_dims", isinstance(self.batch_dims, Mapping) and all(
            isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in self.batch_dims.values()),
            "a dictionary from names of inputs and outputs to dimensions, 0 or more")
        self._check("memory", self.memory in ("", "low"), "'' or 'low'")
        if self.memory == "low":
            whole = self.micro_batches == 1 and not self.max_grad_norm and self.loss_scale is not None
            for name, value in (("predicts", False), ("release_module", True),
                                ("update_in_backward", self.update_in_backward or whole)):
                object.__setattr__(self, name, value)
        for name in ("parts", "outputs"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, (getattr(self, name),))
        self.memory_bytes()

    @staticmethod
    def _is_number(value):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

    def _check(self, name, right, expected):
        if not right:
            raise Error("an option that has no such value", where=f"Options.{name}", found=repr(getattr(self, name)),
                        expected=expected)

    def memory_share(self):
        """Of the program's memory without a limit; 0: no limit of this kind."""
        return 0.7 if self.memory == "low" and self.device_memory is None else 0.0

    def memory_bytes(self):
        """Bytes of device_memory; 0: what is available."""
        value = self.device_memory
        if value is None:
            return 0
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value) if isinstance(value, str) else None
        self._check("device_memory", bool(match) and match[2] in UNITS, 'a number of bytes, or a text such as "4GiB"')
        return int(float(match[1]) * UNITS[match[2]])
