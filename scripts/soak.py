#!/usr/bin/env python3
"""Trains, kills at random moments and resumes, again and again, and compares bits with a run left alone.

usage: scripts/soak.py [--minutes M] [--recipe FILE] [--steps N] [--seed S] [--set KEY=VALUE ...]

Each round draws threads, recomputation and the moments of the kills anew; its weights must have the hash of the
first run's. Exit status 1 at the first that differs, with the folder of its run.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "ramet"
WORK = ROOT / "build" / "soak"
MOST_KILLS = 40  # of one run; then it is left to end


def last_object(text):
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def start(arguments):
    return subprocess.Popen([str(PROGRAM), "train", *arguments, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def finish(process):
    output, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"soak: exit status {process.returncode}: {errors.strip()}")
    return last_object(output)


def killed_run(options, folder, settings, seconds, draw):
    """A run that is killed again and again; gives its last object and the number of kills."""
    kills = 0
    while True:
        has_checkpoint = any(folder.glob("checkpoints/*"))
        place = ["--resume", str(folder)] if has_checkpoint else [options.recipe, "--run", str(folder)]
        if not has_checkpoint:
            shutil.rmtree(folder, ignore_errors=True)
        deciding = [] if has_checkpoint else settings
        process = start([*place, *deciding, "--threads", str(draw.choice((1, 2)))])
        if kills >= MOST_KILLS:
            return finish(process), kills
        try:
            process.wait(timeout=draw.uniform(0.1, 1.2) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            continue
        return finish(process), kills


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--recipe", default=str(ROOT / "examples/bert-mini.toml"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    settings = []
    for setting in [f"train.steps={options.steps}", "train.checkpoint.every=3", *options.set]:
        settings += ["--set", setting]
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    print(f"soak: seed {options.seed}, {options.minutes:g} minutes of {os.path.basename(options.recipe)}", flush=True)
    began = time.monotonic()
    first = finish(start([options.recipe, "--run", str(WORK / "straight"), *settings]))
    seconds = time.monotonic() - began
    print(f"soak: left alone: {first['weights_hash']} in {seconds:.1f} s", flush=True)
    rounds = kills = 0
    while time.monotonic() - began < options.minutes * 60:
        recompute = draw.choice(("none", "cheap", "layer", "all"))
        folder = WORK / f"round{rounds}"
        last, times = killed_run(options, folder, [*settings, "--set", f"train.recompute={recompute}"], seconds, draw)
        rounds, kills = rounds + 1, kills + times
        if last.get("weights_hash") != first["weights_hash"]:
            sys.exit(f"soak: round {rounds} ends with {last.get('weights_hash')} after {times} kills (recompute {recompute}); "
                     f"see {folder}")
        print(f"soak: round {rounds}: equal after {times} kills, recompute {recompute}", flush=True)
        shutil.rmtree(folder)
    print(f"soak: {rounds} runs killed {kills} times in all; every one ended with the same bits")


if __name__ == "__main__":
    main()
