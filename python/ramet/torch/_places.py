"""Lines of the user's program, for errors."""

import os
import re
import traceback

import torch

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


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
