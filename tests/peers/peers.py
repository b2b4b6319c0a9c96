"""What the tests with other programs share: the program under test, a small run, and its points."""

import importlib.util
import json
import math
import os
import pathlib
import struct
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = pathlib.Path(os.environ.get("RAMET_PROGRAM", ROOT / "build" / "ramet"))

RECIPE = """name = "peers"
[model]
kind = "bert"
preset = "mini"
hidden = 32
layers = 2
heads = 4
vocabulary_size = 96
max_positions = 16
[data]
sequence_length = 16
[train]
steps = 6
micro_batch = 2
accumulation = 2
[train.schedule]
learning_rate = 1e-3
[train.evaluation]
every = 3
batches = 1
[system]
every = 0
"""


def needs(*modules):
    """Skips a test without these packages (scripts/setup.sh --trackers installs them)."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(absent, "no Python package " + ", ".join(absent))


def ramet(*arguments, folder, status=0):
    """Runs the program and returns what it printed."""
    done = subprocess.run([str(PROGRAM), *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False,
                          env=dict(os.environ, TZ="UTC"))
    if done.returncode != status:
        raise AssertionError(f"ramet {' '.join(map(str, arguments))}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def train(folder, *options):
    """Trains for a moment; returns the run's folder."""
    (folder / "recipe.toml").write_text(RECIPE)
    ramet("train", "recipe.toml", "--json", "--threads", "1", *options, folder=folder)
    return sorted(path for path in (folder / "runs").iterdir() if (path / "run.json").exists())[-1]


def number(value):
    return float(value) if not isinstance(value, str) else float(value.replace("Infinity", "inf"))


def points_of(run):
    """Metrics of a run by name: [(step, value)], as Ramet itself tells them."""
    told = json.loads(ramet("runs", "export", run, "--format", "json", folder=run.parent.parent))
    return {name: [(step, number(value)) for step, value in points] for name, points in told["metrics"].items()}


def config_of(run):
    told = json.loads(ramet("runs", "export", run, "--format", "json", folder=run.parent.parent))
    config = {}
    for event in told["events"]:
        if event["event"] == "config":
            config.update(event["values"])
    return config


def imported(folder, *paths, run_dir="imported"):
    """Imports paths; returns the lines that the program printed, without the last."""
    lines = ramet("runs", "import", *paths, "--run-dir", run_dir, "--json", folder=folder).splitlines()
    return [json.loads(line) for line in lines][:-1]


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class PointsTestCase(unittest.TestCase):
    def assert_same_points(self, expected, got, what="", as_single=False):
        """Equal steps and values; NaN is equal to NaN. `as_single`: both are compared in single precision."""
        self.assertEqual([step for step, _ in expected], [step for step, _ in got], what)
        for (step, a), (_, b) in zip(expected, got):
            if as_single and math.isfinite(a):
                a, b = single(a), single(b)
            self.assertTrue(a == b or (math.isnan(a) and math.isnan(b)), f"{what} at step {step}: {a} and {b}")
