"""`python -m ramet`: the program ramet, with its commands."""
import os
import pathlib
import sys


def main():
    program = str(pathlib.Path(__file__).parent / "bin" / "ramet")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
