"""A function that runs in a fork of this process: what it imports, and what it leaves behind, is not in this one."""

import os
import pickle
import signal
import sys
import tempfile
import time
import warnings

import torch

STUCK_SECONDS = 30  # without any work: a fork that waits for a thread which only this process has


def result_of(function, meanwhile=None):
    """Calls `function` in a fork and returns its result, which pickle must be able to carry. Returns None where the system
    gives no fork, and where the function raises, or the fork dies or hangs; the caller then calls the function in this
    process, and gets its exception there. The fork sees the memory of this process as it is now. Later changes in one
    process do not reach the other. `meanwhile`: what this process does before it waits; nothing without a fork."""
    if sys.platform != "linux":  # libraries of other systems do not stand a fork
        return None
    _flush()  # or the fork writes what is buffered, too
    with tempfile.TemporaryFile() as file:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads, of which the fork needs none
                child = os.fork()
        except OSError:
            return None
        if child == 0:
            _run(function, file)
        try:
            if meanwhile:
                meanwhile()
            _wait(child)
        finally:
            _end(child)
        file.seek(0)
        try:
            return pickle.load(file)
        except Exception:  # it is not whole
            return None


def _run(function, file):
    """The fork: writes the result into the file, and ends without what a process does in the end. What it prints is kept
    until there is a result: the caller of a function that fails will print it."""
    try:
        torch.set_num_threads(1)  # others of OpenMP did not come along, and would be waited for
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as warned:
            kept = [(each, os.dup(to), to) for each, to in ((printed, 1), (warned, 2))]
            for each, _, to in kept:
                os.dup2(each.fileno(), to)
            file.write(pickle.dumps(function()))
            file.flush()
            _flush()
            for each, screen, _ in kept:
                each.seek(0)
                os.write(screen, each.read())
    finally:
        os._exit(0)


def _flush():
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()


def _wait(child):
    """Until the process has ended, or does nothing any more."""
    work, since = None, time.monotonic()
    while True:
        try:
            if os.waitpid(child, os.WNOHANG)[0]:
                return
        except ChildProcessError:  # somebody else has waited for it
            return
        time.sleep(0.01)
        now = time.monotonic()
        if now - since > STUCK_SECONDS:
            done = _work_of(child)
            if done == work:
                return
            work, since = done, now


def _work_of(process):
    """The processor's time that a process has used; of one that is stopped, something new each time."""
    try:
        with open(f"/proc/{process}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return time.monotonic() if fields[0] in "Tt" else (fields[11], fields[12])


def _end(child):
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
