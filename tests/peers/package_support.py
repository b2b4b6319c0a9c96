"""What the tests of the Python package share: where the package is, and skips."""

import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("RAMET_BUILD_DIR", ROOT / "build"))
sys.path.insert(0, str(BUILD / "python"))


def program_in(path, mark):
    """The first indented block of a page that has the text `mark`."""
    blocks = re.findall(r"(?:^    .*\n|^\n)+", (ROOT / path).read_text(), re.M)
    program = next(block for block in blocks if mark in block)
    return "\n".join(line[4:] for line in program.split("\n"))


def skip_all(reason):
    """Ends the program that imports this module, with one skipped test."""
    class All(unittest.TestCase):
        @unittest.skip(reason)
        def test_all(self):
            pass

    sys.modules["__main__"].All = All
    unittest.main()


if not list((BUILD / "python" / "ramet").glob("_ramet*.so")):
    skip_all("the Python package is not built (cmake -DRAMET_PYTHON=ON, target ramet_python)")
