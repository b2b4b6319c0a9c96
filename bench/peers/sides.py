"""How both sides of a comparison are run: each as a process of its own, on the same processors.

A side may use `threads` processors and no others. PyTorch's threads are also bound, each to one of them (OMP_PROC_BIND,
OMP_PLACES); Ramet's may move among them.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

PEERS = ["torch eager", "torch compiled"]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def first_processors(threads):
    """The processors that both sides get: the first ones of those that this process may use."""
    own = sorted(os.sched_getaffinity(0))
    if len(own) < threads:
        sys.exit(f"{threads} threads need as many processors; this process may use {len(own)}")
    return set(own[:threads])


def stream(command, processors=None, bound=True):
    """The JSON objects that the command prints, a line each, as they come. Without processors it runs on all that there are.
    `bound`: the threads of OpenMP, which PyTorch uses, are bound each to a processor. OpenMP binds the main thread, too, and
    threads of other libraries that it makes would share its processor."""
    environment, limit = dict(os.environ), None
    if processors:
        if str(command[0]) == sys.executable:  # PyTorch
            environment |= {"OMP_NUM_THREADS": str(len(processors))}
            environment |= {"OMP_PROC_BIND": "true", "OMP_PLACES": "threads"} if bound else {}
            environment.setdefault("TORCHINDUCTOR_CACHE_DIR", str(ROOT / "build/inductor"))
        limit = lambda: os.sched_setaffinity(0, processors)
    words = [str(word) for word in command]
    with tempfile.TemporaryFile("w+") as said:
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True, cwd=ROOT, env=environment, preexec_fn=limit) as side:
            for line in side.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
        if side.returncode != 0:
            said.seek(0)
            sys.exit(f"{' '.join(words)} failed:\n{said.read()[-2000:]}")


def objects(command, processors=None, bound=True):
    """All of them."""
    return list(stream(command, processors, bound))


def run(command, processors, bound=True):
    """The last of them."""
    return objects(command, processors, bound)[-1]


def comparison_arguments(description, cases):
    """Of a comparison with PyTorch by rounds: a parser with what all of them take. See `runners_of`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(cases), action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without", choices=PEERS, action="append", default=[],
                        help="leave a peer out (compiled needs minutes to warm up; eager is slow on long sequences)")
    parser.add_argument("--warm", action="store_true",
                        help="measure nothing: run PyTorch's compiled sides for a step, so that build/inductor has what a later run would compile")
    return parser


def runners_of(args):
    """The sides that are measured, Ramet's first."""
    runners = ["ramet"] + [peer for peer in PEERS if peer not in args.without]
    if len(runners) == 1:
        sys.exit("every peer is left out: nothing to compare with")
    return runners


def warm(command_of, cases, runners, args):
    """Compiles what the cases' compiled sides need into inductor's cache. `command_of(runner, case, args)` is a side's command."""
    args.steps = 1
    for case in cases:
        for name in runners:
            if "compiled" in name:
                start = time.monotonic()
                run(command_of(name, case, args), first_processors(args.threads))
                print(f"  {case} {name}: {time.monotonic() - start:.0f} s", flush=True)
