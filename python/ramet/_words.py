"""Errors of the engine in the words of Python: the engine speaks of recipes, of the command line and of C++."""

import contextlib
import re

from .errors import Error

# What the engine writes, and what stands for it in Python.
_PYTHON = [
    (r'Build each layer inside a PartScope\(builder, "encoder", i\), or write part "encoder" i behind its nodes in the text form',
     'Build each layer inside `with m.part("encoder", i):`'),
    (r"Number the model's parts \(PartScope\)", "Number the model's parts (`with m.part(name, i):`)"),
    (r"train another recipe, with train\.(\w+)=(\d+)", r"train with TrainOptions(\1=\2)"),
    (r"a larger train\.accumulation", "more micro_batches"),
    (r"train\.accumulation", "micro_batches"),
    (r"train\.(lanes|chunks|seed|precision)\b", r"\1"),
    (r"--device-memory of (\d+) bytes or more", r"TrainOptions(device_memory=\1) or more"),
    (r"Give --device-memory what there is", "Give TrainOptions(device_memory=...) what there is"),
    (r'recompute "(\w+)"', r'layout="recompute=\1"'),
    (r"\(bf16, or an optimizer with fewer\)", '(TrainOptions(moments="bf16"), or an optimizer with fewer)'),
    (r"TrainOptions::", "TrainOptions."),
]
# The same of a front whose options are called Options, and whose layers are modules.
MODULES = [
    (r'Build each layer inside `with m\.part\("encoder", i\):`', 'Name the modules that are layers: Options(parts=["encoder.layer.*"])'),
    (r"Number the model's parts \(`with m\.part\(name, i\):`\)", "Name the parts (Options.parts)"),
    (r"TrainOptions", "Options"),
]


def _worded(text, words):
    for pattern, instead in words:
        text = re.sub(pattern, instead, text)
    return text


def _parts(error):
    return error.what, error.where, error.found, error.expected, error.remedy


def raised(kind, *parts):
    """The exception of an error that the engine raises. `kind`: its class; `parts` as Error takes them."""
    return kind(*(_worded(part, _PYTHON) for part in parts))


@contextlib.contextmanager
def words(table):
    """Errors that are raised inside say it in these words."""
    try:
        yield
    except Error as error:
        new = tuple(_worded(part, table) for part in _parts(error))
        if new == _parts(error):
            raise
        raise type(error)(*new) from None
