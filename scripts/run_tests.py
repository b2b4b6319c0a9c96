#!/usr/bin/env python3
"""Runs every test of a build folder: the GoogleTest programs BUILD/tests/test_* and the scripts
tests/*/*_test.py (unittest). Prints progress as plain lines, the output of what failed, and as the last line
"N passed, N failed", with ", N skipped" when some were. Exit status 1 on any failure, on a crash (each test that
had no chance to run counts as failed) and when there was nothing to run.

usage: scripts/run_tests.py [--build DIR] [--jobs N] [--timeout SECONDS] [--no-scripts] [NAME ...]

NAME picks folders: `scripts/run_tests.py base ir` runs test_base, test_ir and the scripts of tests/base, tests/ir.
Folders that need other programs (tests/peers, tests/python, tests/wheel) run only when they are named.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Programs that run again with the processor held to lower levels (RAMET_CPU), so that kernels for others stay tested.
LEVELS = {"test_ops": ["avx512", "avx2", "baseline"], "test_kernel": ["avx2"]}
# Folders that need what scripts/setup.sh installs only when asked (make test-peers, make test-wheel).
ON_REQUEST = {"peers", "python", "wheel"}
REPORT_EVERY = 20.0  # seconds between lines about a program that is still running
KEPT_LINES = 400     # of a failing test's output

Result = collections.namedtuple("Result", "passed failed skipped seconds report")
print_lock = threading.Lock()


def say(text):
    with print_lock:
        print(text, flush=True)


class GoogleTestReader:
    """Follows a GoogleTest program's output line by line."""

    LINE = re.compile(r"^\[( RUN      |       OK |  FAILED  |  SKIPPED )\] ([^\s,(]+)")
    TOTAL = re.compile(r"^\[==========\] Running (\d+) tests? from")

    def __init__(self):
        self.total = None
        self.current = None
        self.lines = collections.deque(maxlen=KEPT_LINES)
        self.passed, self.failed, self.skipped = set(), {}, {}
        self.finished = False

    def feed(self, line):
        if match := self.TOTAL.match(line):
            self.total = int(match[1])
        if line.startswith("[==========]") and " ran." in line:
            self.finished = True
        # A test may print without a line end before GoogleTest's own mark.
        marker = max(line.rfind("[       OK ]"), line.rfind("[  FAILED  ]"), line.rfind("[  SKIPPED ]"))
        match = self.LINE.match(line[marker:] if marker > 0 else line)
        if not match or self.finished:
            self.lines.append(line)
            return
        kind, name = match[1].strip(), match[2]
        if kind == "RUN":
            self.current = name
            self.lines.clear()
        elif name == self.current:
            if kind == "OK":
                self.passed.add(name)
            elif kind == "FAILED":
                self.failed[name] = "\n".join(self.lines)
            else:
                self.skipped[name] = "\n".join(self.lines)
            self.current = None
            self.lines.clear()

    def done(self):
        return len(self.passed) + len(self.failed) + len(self.skipped)


def describe_exit(code):
    if code < 0:
        try:
            return "killed by " + signal.Signals(-code).name
        except ValueError:
            return f"killed by signal {-code}"
    return f"exit status {code}"


def start(command, environment):
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def follow(process, name, timeout, each_line, state):
    """Reads the process to its end, with a line now and then; returns whether it ran out of time."""
    began = time.monotonic()
    late = threading.Event()
    over = threading.Event()

    def watch():
        told = began
        while not over.wait(0.5):
            now = time.monotonic()
            if now - began > timeout:
                late.set()
                kill_group(process)
                return
            if now - told > REPORT_EVERY:
                told = now
                say(f"  ...  {name}: {now - began:.0f} s, {state()}")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    for line in process.stdout:
        each_line(line.rstrip("\n"))
    process.wait()
    over.set()
    watcher.join()
    return late.is_set()


def run_program(path, environment, timeout):
    reader = GoogleTestReader()
    began = time.monotonic()
    process = start([str(path), "--gtest_color=no"], environment)
    late = follow(process, path.name, timeout, reader.feed,
                  lambda: f"{reader.done()} of {reader.total or '?'} tests, at {reader.current or 'the start'}")
    report = [f"FAILED {path.name}: {name}\n{text}" for name, text in reader.failed.items()]
    report += [f"skipped {path.name}: {name}: {skip_reason(text)}" for name, text in reader.skipped.items()]
    failed = len(reader.failed)
    if not reader.finished or (process.returncode != 0 and not failed):
        lost = max((reader.total or 0) - reader.done(), 1)
        failed += lost
        why = f"ran longer than {timeout:.0f} s" if late else describe_exit(process.returncode)
        report.append(f"FAILED {path.name}: {why} in {reader.current or 'no test'}; "
                      f"{lost} tests had no result\n" + "\n".join(reader.lines))
    return Result(len(reader.passed), failed, len(reader.skipped), time.monotonic() - began, report)


def skip_reason(text):
    lines = [line.strip() for line in text.splitlines() if line.strip() and not re.match(r"^\S+:\d+: Skipped$", line)]
    return lines[0] if lines else "no reason given"


def run_script(path, environment, timeout):
    name = str(path.relative_to(ROOT))
    began = time.monotonic()
    lines = []
    process = start([sys.executable, str(path), "-v"], environment)
    late = follow(process, name, timeout, lines.append, lambda: f"{len(lines)} lines of output")
    text = "\n".join(lines)
    ran = re.findall(r"^Ran (\d+) tests? in ", text, re.M)
    counts = {key: int(value) for key, value in re.findall(r"(failures|errors|skipped)=(\d+)", text)}
    failed = counts.get("failures", 0) + counts.get("errors", 0)
    skipped = counts.get("skipped", 0)
    passed = max(int(ran[-1]) - failed - skipped, 0) if ran else 0
    report = []
    if late or (process.returncode != 0 and failed == 0) or not ran:
        failed += 1
        why = f"ran longer than {timeout:.0f} s" if late else describe_exit(process.returncode)
        report.append(f"FAILED {name}: {why}\n{text}")
    elif failed:
        report.append(f"FAILED {name}\n{text}")
    report += [f"skipped {name}: {line}" for line in lines if re.search(r" \.\.\. skipped ", line)]
    return Result(passed, failed, skipped, time.monotonic() - began, report)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="build folder (default: build)")
    parser.add_argument("--jobs", type=int, default=max(1, min(4, os.cpu_count() or 1)), help="programs at once")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds that one program may take")
    parser.add_argument("--no-scripts", action="store_true", help="the GoogleTest programs only")
    parser.add_argument("names", nargs="*", help="folders of tests/ to run; all when none is named")
    return parser.parse_args()


def main():
    options = parse_arguments()
    build = (ROOT / options.build).resolve()
    environment = dict(os.environ, RAMET_BUILD_DIR=str(build), RAMET_PROGRAM=str(build / "ramet"),
                       PYTHONPATH=os.pathsep.join(filter(None, [str(build / "python"), os.environ.get("PYTHONPATH")])))
    programs = sorted(path for path in (build / "tests").glob("test_*") if os.access(path, os.X_OK) and path.is_file())
    jobs = [(run_program, path, path.name.removeprefix("test_"), "") for path in programs]
    jobs += [(run_program, path, path.name.removeprefix("test_"), level)
             for path in programs for level in LEVELS.get(path.name, [])]
    if not options.no_scripts:
        jobs += [(run_script, path, path.parent.name, "") for path in sorted(ROOT.glob("tests/*/*_test.py"))]
    if options.names:
        unknown = set(options.names) - {folder for _, _, folder, _ in jobs}
        if unknown:
            say("run_tests: no tests for " + ", ".join(sorted(unknown)))
            return 2
        jobs = [job for job in jobs if job[2] in options.names]
    else:
        jobs = [job for job in jobs if job[2] not in ON_REQUEST]

    passed = failed = skipped = 0
    reports = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = {}
        for run, path, _, level in jobs:
            held = dict(environment, RAMET_CPU=level) if level else environment
            futures[pool.submit(run, path, held, options.timeout)] = (path, f" at {level}" if level else "")
        for future in concurrent.futures.as_completed(futures):
            result = future.result()
            passed, failed, skipped = passed + result.passed, failed + result.failed, skipped + result.skipped
            mark = "FAIL" if result.failed else "  ok" if result.passed else "none"
            path, level = futures[future]
            say(f"{mark}  {path.relative_to(build if build in path.parents else ROOT)}{level}: "
                f"{result.passed} passed, {result.failed} failed, {result.skipped} skipped, {result.seconds:.1f} s")
            reports += result.report
    for report in sorted(reports, key=lambda text: text.startswith("FAILED")):
        say(report)
    if passed + failed == 0:
        say("run_tests: no test was run")
    say(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or passed + failed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
