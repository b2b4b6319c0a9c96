"""What of a module Ramet has, before anything is compiled."""

import collections
import dataclasses

import ramet
from ramet.errors import Error

from . import _export
from ._compile import prepare
from ._places import place_of
from ._structure import split_call

OWN = {"ramet.stop_gradient"}


@dataclasses.dataclass(frozen=True)
class Report:
    """Operators of a module: how often each is called, and which of them Ramet refuses, with the lines that call them."""

    operators: dict   # name to number of calls
    refused: dict     # name to lines of the user's program
    error: str = ""   # why the module could not be traced or imported

    def __bool__(self):
        return not self.refused and not self.error

    def __str__(self):
        lines = [f"{sum(self.operators.values())} calls of {len(self.operators)} operators"]
        for name, count in sorted(self.operators.items(), key=lambda each: (-each[1], each[0])):
            places = self.refused.get(name)
            lines.append(f"{count:6d}  {name}" + (f"   not supported: {', '.join(places[:3])}" if places else ""))
        if self.error:
            lines.append(self.error)
        lines.append("supported" if self else "not supported")
        return "\n".join(lines)


def supported(module, example, training=True, batch_dims=None):
    """A report on a module, in training or evaluation mode; nothing is compiled, and nothing raises for what Ramet lacks.
    `batch_dims` as in Options."""
    try:
        module, inputs = prepare(module, example, batch_dims or {})
        traced = _export.trace(module, inputs, split_call(example), training, batch_dims or {})
    except Error as error:
        return Report({}, {}, str(error))
    known = set(ramet.torch_operators()) | OWN
    refused = collections.defaultdict(list)
    for node in traced.exported.graph.nodes:
        if node.op == "call_function" and "getitem" not in str(node.target):
            name = _export.name_of_op(node)
            if name not in known and place_of(node) not in refused[name]:
                refused[name].append(place_of(node))
    refused = {name: places for name, places in refused.items() if places}
    error = ""
    if not refused:
        try:
            program = traced.written()
            tensors = [ramet.TorchTensor(*each) for each in _export.tensors_of(module, program.constants, set())]
            ramet.import_torch(name=type(module).__name__, evaluation=program.text, tensors=tensors, outputs=program.outputs)
        except Error as found:
            error = str(found)
    return Report(dict(traced.counts()), refused, error)
