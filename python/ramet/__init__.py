"""Ramet trains models, and predicts with them: memory planned before anything runs, and the same bits on any layout.

docs/python.md explains the package. Functions and classes have the names of the C++ library (docs/library.md).
"""
from ramet.errors import DoesNotFit, Error, FormatError, ShapeError, UnsupportedOp
from ramet._ramet import *  # noqa: F403
from ramet._ramet import __version__
