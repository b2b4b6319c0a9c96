"""Lines of the user's program, for errors."""

import os
import re
import traceback

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


# What to do about code of PyTorch Geometric that depends on the values of tensors, by its place.
_REMEDIES = {
    r"loop\.py:\d+ in \w*self_loops":
        "PyTorch Geometric's layer changes self loops, and edges of a batch are known in the step alone. Give the layer "
        "add_self_loops=False, and the data the transform AddSelfLoops before batches are made (GCNConv(normalize=False) goes with "
        "GCNNorm). A layer without this option, such as ChebConv, needs edges that are a buffer of the module",
    r"_scatter\.py:\d+ in scatter|base\.py:\d+ in __call__":
        "PyTorch Geometric counts the graphs by their greatest number. Give num_graphs: global_add_pool(x, batch.batch, batch.num_graphs), "
        "an aggregation or scatter dim_size=batch.num_graphs",
    r"_to_dense_batch\.py:\d+ in to_dense_batch": "Give to_dense_batch batch_size=batch.num_graphs and max_num_nodes=",
}


def remedy_at(place, usual):
    """What to do about the code at a place: of PyTorch Geometric's code what replaces it, of other code `usual`."""
    return next((remedy for pattern, remedy in _REMEDIES.items() if re.match(pattern, place)), usual)


def is_users(path):
    """Whether a file is neither of PyTorch nor of Ramet."""
    return not path.startswith((_TORCH, _OWN, "<")) and not path.endswith(("contextlib.py", "functools.py"))


def text_of(path, line, function):
    return f"{os.path.basename(path)}:{line} in {function}"


def place_in(stack):
    """The innermost line of a stack in text form that is the user's; "" if there is none."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', stack or "")
    users = [frame for frame in frames if is_users(frame[0])]
    return text_of(*users[-1]) if users else ""


def frames_of_forward(stack, forward):
    """The user's frames of a stack that were called by the function with the code `forward`; of others none."""
    calls = [i for i, frame in enumerate(stack) if frame.name == forward.co_name and frame.filename == forward.co_filename]
    inner = stack[calls[-1] + 1:] if calls else []
    return traceback.StackSummary.from_list([frame for frame in inner if is_users(frame.filename)])


def place_of(node):
    """The user's line that made a node of a traced program, or the module, where all lines are PyTorch's."""
    return place_in(node.meta.get("stack_trace")) or _module_of(node)


def _module_of(node):
    """The innermost module that a node was made in: "module 'layers.0' (Dropout)"; "" where it is not known."""
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    if not modules:
        return ""
    path, kind = modules[-1]
    kind = kind if isinstance(kind, str) else kind.__name__
    path = path.removeprefix("module.") if path != "module" else ""
    return f"module '{path}' ({kind.split('.')[-1]})" if path else f"module ({kind.split('.')[-1]})"


def place_of_error(error):
    """The innermost line of the user's program that an exception passed; "" if there is none."""
    found, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_users(code.co_filename):
            found = text_of(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found
