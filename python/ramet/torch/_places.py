"""Lines of the user's program, for errors."""

import os
import re

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
    return text_of(*(users or frames)[-1]) if frames else ""


def users_stack(stack):
    """A stack in text form without the frames of PyTorch and of Ramet; the whole one where no other frame is in it."""
    frames = re.split(r'(?m)^(?=\s*File ")', stack)
    users = [frame for frame in frames if (found := re.match(r'\s*File "([^"]+)"', frame)) and is_users(found[1])]
    return "".join(users) or stack


def place_of(node):
    """The user's line that made a node of a traced program."""
    return place_in(node.meta.get("stack_trace"))


def place_of_error(error):
    """The innermost line of the user's program that an exception passed; "" if there is none."""
    found, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_users(code.co_filename):
            found = text_of(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found
