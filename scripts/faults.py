#!/usr/bin/env python3
"""Kills, halts and starves runs on several devices: each must end with a clear word and go on with the same bits.

usage: scripts/faults.py [--build DIR] [--kills N] [--halts N] [--pauses N] [--seed S] [--keep]

A small model trains on MPI ranks (and, now and then, on the threads of one process). At a random moment
  - a random rank is killed (--kills, 50): all others must end by themselves, naming it; no process may be left
  - a random rank is stopped without dying (--halts, 6): the same, naming the superstep that it last finished
  - a random rank is stopped for less than the time limit (--pauses, 2): nothing may come of it
  - streaming files find no room: the run must end before it begins, naming the folder
and each time the run must go on from its last checkpoint, mostly on another layout, to the weights of a run left alone.
Exit status 1 at the first that does not, with the folder of its run.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIME_LIMIT = 4    # seconds that a device waits for another
END_LIMIT = 40    # seconds within which all must have ended
START_LIMIT = 60  # seconds for a start and two steps, on a machine with other work

RECIPE = """
name = "faults"
[model]
kind = "bert"
preset = "mini"
layers = 4
hidden = 32
heads = 4
vocabulary_size = 96
max_positions = 16
[data]
sequence_length = 16
[train]
steps = STEPS
micro_batch = 2
accumulation = 4
lanes = 4
chunks = 4
seed = 3
clip_norm = 1.0
precision = "bf16"
[train.schedule]
learning_rate = 1e-3
warmup_steps = 2
[train.evaluation]
batches = 1
[train.checkpoint]
every = 2
"""
# (layout, ranks); STREAM is a folder for streaming files.
LAYOUTS = [
    ("p=2", 2), ("r=2 rts=weights,grads,optimizer", 2), ("t=2", 2), ("t=2 sequence=true recompute=layer", 2), ("r=4", 4), ("p=4", 4), ("p=2 r=2", 4),
    ("t=2x2", 4), ("p=2 t=2", 4), ("p=3", 3), ("p=2 schedule=zero-bubble", 2), ("p=2 schedule=interleaved:2", 2), ("p=2 r=2 rts=optimizer", 2),
    ("p=2 phases=2 offload=weights,optimizer,activations streaming=STREAM", 2), ("r=2 rts=weights,optimizer phases=2 offload=optimizer", 2),
    ("p=2 t=2 r=2 rts=weights,grads,optimizer", 4),
]
RESUMED = LAYOUTS + [(layout, 0) for layout, _ in LAYOUTS] + [("p=1", 0)] * 8

Outcome = collections.namedtuple("Outcome", "status out err seconds")


class Wrong(Exception):
    pass


class Run:
    """A training under way."""

    def __init__(self, program, arguments, layout, ranks, folder, before=()):
        command = [*before, str(program), "train", *map(str, arguments), "--layout", layout, "--json", "--time-limit", str(TIME_LIMIT)]
        if ranks:
            command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *(["--allow-run-as-root"] if os.geteuid() == 0 else []), *command]
        self.folder, self.ranks = folder, ranks
        self.out, self.err = (open(folder.with_suffix(end), "w+") for end in (".out", ".err"))
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err, text=True)

    def processes(self):
        """Its processes, by rank."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if not words[0].endswith(b"/ramet") or str(self.folder).encode() not in words or (entry / "stat").read_text().split(")")[-1].split()[0] == "Z":
                    continue
                variables = dict(each.split(b"=", 1) for each in (entry / "environ").read_bytes().split(b"\0") if b"=" in each)
            except OSError:  # it has ended meanwhile
                continue
            found[int(variables.get(b"OMPI_COMM_WORLD_RANK", 0))] = int(entry.name)
        return found

    def wait(self, limit, what):
        begin = time.monotonic()
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.end()
            raise Wrong(f"no end {limit} s after {what}") from None
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read())
        return Outcome(self.process.returncode, *texts, time.monotonic() - begin)

    def end(self):
        for pid in self.processes().values():
            os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Faults:
    def __init__(self, options):
        self.options = options
        self.draw = random.Random(options.seed)
        build = pathlib.Path(options.build).resolve()
        self.program, self.work = build / "ramet", build / "faults"
        self.stream = self.work / "streaming"
        self.numbers = 0
        self.slowest = 0

    def prepare(self):
        shutil.rmtree(self.work, ignore_errors=True)
        self.stream.mkdir(parents=True)
        self.recipe = self.work / "faults.toml"
        self.recipe.write_text(RECIPE.replace("STEPS", str(self.options.steps)))
        outcome = self.start([self.recipe, "--run", self.work / "alone"], "p=1", 0, self.work / "alone").wait(600, "the start")
        if outcome.status != 0:
            sys.exit(f"faults: the run left alone: {outcome.err.strip()}")
        self.expected = self.last(outcome)["weights_hash"]
        print(f"faults: seed {self.options.seed}; left alone: {self.expected} after {self.options.steps} steps in {outcome.seconds:.1f} s", flush=True)

    def start(self, arguments, layout, ranks, folder, before=()):
        return Run(self.program, arguments, layout.replace("STREAM", str(self.stream)), ranks, folder, before)

    @staticmethod
    def last(outcome):
        lines = [line for line in outcome.out.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {}

    @staticmethod
    def checkpoints(folder):
        """Whole ones; what is being saved is a folder with another name."""
        return sorted(each.name for each in folder.glob("checkpoints/step-*") if each.suffix != ".tmp")

    def begin(self, layout, ranks):
        """A run that has saved a checkpoint, or has ended before anybody looked."""
        self.numbers += 1
        folder = self.work / f"run{self.numbers}"
        run = self.start([self.recipe, "--run", folder], layout, ranks, folder)
        limit = time.monotonic() + START_LIMIT
        while run.process.poll() is None and not self.checkpoints(folder):
            if time.monotonic() > limit:
                run.end()
                raise Wrong(f"{folder}: no checkpoint {START_LIMIT} s after the start")
            time.sleep(0.02)
        return run

    def interrupt(self, layout, ranks):
        """A run at a random moment, and its processes; again where it was over before."""
        while True:
            run = self.begin(layout, ranks)
            time.sleep(self.draw.uniform(0, 1.5))
            processes = run.processes()
            if len(processes) == max(1, ranks) and run.process.poll() is None:
                return run, processes
            if run.wait(END_LIMIT, "its last step").status != 0:
                raise Wrong(f"{run.folder}: ended by itself: {run.err.name}")
            shutil.rmtree(run.folder)

    def resume(self, folder):
        steps = self.checkpoints(folder)
        if not steps:
            raise Wrong(f"{folder}: no checkpoint to go on from")
        layout, ranks = self.draw.choice(RESUMED)
        outcome = self.start(["--resume", folder], layout, ranks, folder).wait(600, "going on")
        at = f"{folder}: gone on from {steps[-1]} on {layout!r} ({ranks or 'no'} ranks)"
        if outcome.status != 0:
            raise Wrong(f"{at}: exit status {outcome.status}: {outcome.err.strip()[-800:]}")
        if self.last(outcome).get("weights_hash") != self.expected:
            raise Wrong(f"{at}: ends with {self.last(outcome).get('weights_hash')}, not {self.expected}")
        shutil.rmtree(folder)
        return f"{steps[-1]} -> {layout} ({ranks or 'no'} ranks)"

    def check_end(self, run, outcome, names):
        """Ended by itself, with the words that are due, and nobody is left."""
        if outcome.status == 0:
            raise Wrong(f"{run.folder}: exit status 0 after a fault")
        missing = [name for name in names if not re.search(name, outcome.err)]
        if missing:
            raise Wrong(f"{run.folder}: nothing says /{missing[0]}/: {outcome.err.strip()[-1500:]}")
        for _ in range(100):
            if not run.processes():
                break
            time.sleep(0.05)
        else:
            left = run.processes()
            run.end()
            raise Wrong(f"{run.folder}: processes of ranks {sorted(left)} are left")
        self.slowest = max(self.slowest, outcome.seconds)

    def kill(self):
        if self.draw.random() < 0.1:  # of threads none is left to tell
            layout, ranks = self.draw.choice(LAYOUTS)[0], 0
        else:
            layout, ranks = self.draw.choice(LAYOUTS)
        while True:
            run, processes = self.interrupt(layout, ranks)
            rank, pid = self.draw.choice(sorted(processes.items()))
            os.kill(pid, signal.SIGKILL)
            outcome = run.wait(END_LIMIT, f"rank {rank} was killed ({run.folder})")
            if "weights_hash" not in self.last(outcome):
                break
            shutil.rmtree(run.folder)  # killed after the run's last word: nobody was left to miss it
        words = [rf"(rank|device) \d+ has ended \(process {pid}\)", r"superstep \d+", "(Go on|[Rr]esume) from the last checkpoint"] if ranks else []
        self.check_end(run, outcome, words)
        return f"{layout} ({ranks or 'no'} ranks), rank {rank} killed: ended after {outcome.seconds:.2f} s; {self.resume(run.folder)}"

    def halt(self):
        layout, ranks = self.draw.choice(LAYOUTS)
        run, processes = self.interrupt(layout, ranks)
        rank, pid = self.draw.choice(sorted(processes.items()))
        os.kill(pid, signal.SIGSTOP)
        outcome = run.wait(END_LIMIT + TIME_LIMIT, f"rank {rank} was stopped ({run.folder})")
        self.check_end(run, outcome, [r"(rank|device) \d+ last finished superstep \d+", "(Go on|[Rr]esume) from the last checkpoint"])
        return f"{layout} ({ranks} ranks), rank {rank} halted: ended after {outcome.seconds:.2f} s; {self.resume(run.folder)}"

    def pause(self):
        layout, ranks = self.draw.choice(LAYOUTS)
        run, processes = self.interrupt(layout, ranks)
        rank, pid = self.draw.choice(sorted(processes.items()))
        os.kill(pid, signal.SIGSTOP)
        time.sleep(TIME_LIMIT / 3)
        os.kill(pid, signal.SIGCONT)
        outcome = run.wait(600, f"rank {rank} was stopped and went on ({run.folder})")
        if outcome.status != 0 or self.last(outcome).get("weights_hash") != self.expected:
            raise Wrong(f"{run.folder}: after a pause of rank {rank}: exit status {outcome.status}: {outcome.err.strip()[-800:]}")
        shutil.rmtree(run.folder)
        return f"{layout} ({ranks} ranks), rank {rank} paused: same bits"

    def starve(self, way, before=(), otherwise=()):
        """Goes on from a checkpoint with streaming files for which there is no room; gives the run and the words about it.
        `otherwise`: texts that may stand for the folder's name."""
        run = self.begin("p=1", 0)
        run.process.send_signal(signal.SIGINT)
        run.wait(END_LIMIT, "an interruption")
        layout, ranks = self.draw.choice([("phases=2 offload=weights,optimizer,activations streaming=STREAM", 0), ("p=2 offload=optimizer,grads streaming=STREAM", 2)])
        starved = self.start(["--resume", run.folder], layout, ranks, run.folder, before)
        outcome = starved.wait(END_LIMIT, f"streaming files had no room ({run.folder})")
        self.check_end(starved, outcome, ["|".join([re.escape(str(self.stream)), *otherwise])])
        return run.folder, f"{layout} ({ranks or 'no'} ranks), {way}: ended after {outcome.seconds:.2f} s"

    def starve_by_limit(self):
        # Ranks may not even get the shared memory that they meet in.
        folder, text = self.starve("files of 64 KiB at most", ("prlimit", "--fsize=65536"), ["ranks cannot meet.*File too large"])
        return f"{text}; {self.resume(folder)}"

    def starve_by_disk(self):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", self.stream], capture_output=True, check=False).returncode != 0:
            return "a full disk: left out, since no file system can be mounted here"
        try:
            folder, text = self.starve("a disk of 64 KiB")
        finally:
            subprocess.run(["umount", self.stream], check=False)
        return f"{text}; {self.resume(folder)}"

    def run(self):
        options = self.options
        plan = [self.kill] * options.kills + [self.halt] * options.halts + [self.pause] * options.pauses
        if options.halts:
            plan += [self.starve_by_limit, self.starve_by_disk]
        begin = time.monotonic()
        counts = collections.Counter()
        for index, fault in enumerate(plan, 1):
            try:
                text = fault()
            except Wrong as wrong:
                sys.exit(f"faults: [{index}/{len(plan)}] {fault.__name__}, seed {options.seed}: {wrong}")
            counts[fault.__name__.split("_")[0]] += 1
            print(f"[{index}/{len(plan)}] {text}", flush=True)
        told = ", ".join(f"{count} x {name}" for name, count in counts.items())
        print(f"faults: {told}: all ended within {self.slowest:.1f} s and went on with the same bits, in {time.monotonic() - begin:.0f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(ROOT / "build"), help="folder with the program")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--halts", type=int, default=6)
    parser.add_argument("--pauses", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="keep the folder of the runs")
    options = parser.parse_args()
    if not shutil.which("mpirun"):
        sys.exit("faults: no mpirun")
    faults = Faults(options)
    faults.prepare()
    faults.run()
    if not options.keep:
        shutil.rmtree(faults.work, ignore_errors=True)


if __name__ == "__main__":
    main()
