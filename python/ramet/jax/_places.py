"""What JAX knows of an equation beside its primitive: the line of the user's program, and the scopes around it."""
import re

from jax._src import source_info_util

import ramet

PART = re.compile(r"(\w+)[.\[](\d+)\]?")


def line_of(equation):
    """File and line of the user's program that made an equation; None when JAX does not know."""
    frame = source_info_util.user_frame(equation.source_info.traceback)
    return (frame.file_name, frame.start_line) if frame else None


def scopes_of(equation):
    """Names of jax.named_scope around an equation, outermost first."""
    return tuple(str(equation.source_info.name_stack).split("/"))


def part_of(scopes):
    """The first scope that names a part, as ("layers", 3) for "layers.3"; None when there is none."""
    for scope in scopes:
        if match := PART.fullmatch(scope):
            return match[1], int(match[2])
    return None


class Refusals:
    """What Ramet does not have, gathered so that one error names all of it."""

    def __init__(self):
        self._found = {}

    def add(self, text, place):
        count, first = self._found.get(text, (0, place))
        self._found[text] = (count + 1, first)

    def raise_for(self, function):
        if not self._found:
            return
        listed = [f"{text}, {count} times" if count > 1 else text for text, (count, _) in self._found.items()]
        listed = [text + (f" ({place[0]}:{place[1]})" if place else "")
                  for text, (_, place) in zip(listed, self._found.values())]
        raise ramet.UnsupportedOp("a function of JAX with what Ramet does not have", where=function,
                                  found="; ".join(listed),
                                  remedy="docs/jax-tensorflow.md lists the primitives that Ramet reads")
