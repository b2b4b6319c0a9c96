"""The exceptions of Ramet. Each says what is wrong, where, what was found, what was expected, and what to do."""


class Error(RuntimeError):
    """What Ramet raises. Its parts are `what`, `where`, `found`, `expected` and `remedy`; empty ones are not shown."""

    def __init__(self, what, where="", found="", expected="", remedy=""):
        self.what, self.where, self.found, self.expected, self.remedy = what, where, found, expected, remedy
        text = (f"{where}: " if where else "") + what
        if found:
            text += f"; found {found}"
        if expected:
            text += f"; expected {expected}"
        if remedy:
            text += f". {remedy}"
        super().__init__(text)

    def __reduce__(self):
        return type(self), (self.what, self.where, self.found, self.expected, self.remedy)


class UnsupportedOp(Error, NotImplementedError):
    """A model has ops or options that Ramet does not have."""


class DoesNotFit(Error, MemoryError):
    """A program needs more memory than there is. It is refused before it runs."""


class ShapeError(Error, ValueError):
    """Shapes or element types that do not fit each other."""


class FormatError(Error, ValueError):
    """A file that is not what its format demands."""
