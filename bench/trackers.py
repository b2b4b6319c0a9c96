#!/usr/bin/env python3
"""The same points logged into a run's log, by W&B offline and by MLflow into SQLite, one after another, and read back.

  bench/trackers.py [--build build] [--steps 10000] [--metrics 4]

A step logs all metrics in one call: RunLogWriter of Ramet, wandb.log, and of MLflow both log_metrics and, as the most that
it can, log_batch of 1,000 points. Prints a line of JSON each: seconds in the calls, seconds until all of it is kept,
processor seconds of the logging process (W&B has a second one, which is not in them), bytes on disk, and whether reading
back gave the same points: the same steps and the same f64 numbers. Needs the packages wandb and mlflow (scripts/setup.sh --peers --trackers).
"""
import argparse
import csv
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

NAMES = ["loss", "learning_rate", "grad_norm", "tokens_per_second"]

SHARED = """
import json, math, os, resource, sys, time
folder, steps, names = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
def value(step, i):
    return math.exp(-0.001 * step) + 0.01 * math.sin(step * (7 * i))
def processor():
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
def report(logging, kept, worked):
    print("MEASURED " + json.dumps({"logging_seconds": round(logging, 3), "kept_seconds": round(kept, 3),
                                    "processor_seconds": round(worked, 3)}))
"""

WANDB = SHARED + """
os.environ.update(WANDB_MODE="offline", WANDB_DIR=folder, WANDB_SILENT="true", WANDB_CONSOLE="off")
import wandb
run = wandb.init(project="bench", settings=wandb.Settings(x_disable_stats=True))
worked, start = processor(), time.perf_counter()
for step in range(1, steps + 1):
    run.log({name: value(step, i) for i, name in enumerate(names)}, step=step)
logging = time.perf_counter() - start
run.finish()
report(logging, time.perf_counter() - start, processor() - worked)
"""

MLFLOW = SHARED + """
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
import mlflow
from mlflow.entities import Metric
mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
batched = sys.argv[4] == "batch"
with mlflow.start_run() as run:
    client = mlflow.MlflowClient()
    worked, start = processor(), time.perf_counter()
    waiting = []
    for step in range(1, steps + 1):
        values = {name: value(step, i) for i, name in enumerate(names)}
        if not batched:
            mlflow.log_metrics(values, step=step)
            continue
        waiting += [Metric(name, v, 1_760_000_000_000 + step, step) for name, v in values.items()]
        if len(waiting) + len(names) > 1000 or step == steps:
            client.log_batch(run.info.run_id, metrics=waiting)
            waiting = []
    logging = time.perf_counter() - start
print("RUN " + run.info.run_id)
report(logging, time.perf_counter() - start, processor() - worked)
"""

# In a process of its own: this folder has a module `tokenize`, which would hide Python's.
MLFLOW_READ = """
import json, os, sys
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
import mlflow
folder, run, names = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
print(json.dumps({name: {m.step: m.value for m in client.get_metric_history(run, name)} for name in names}))
"""


def value(step, index):
    return math.exp(-0.001 * step) + 0.01 * math.sin(step * (7 * index))


def run_python(code, *words):
    environment = {key: text for key, text in os.environ.items() if not key.startswith(("WANDB_", "MLFLOW_"))}
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return done.stdout


def measured(text):
    return json.loads(next(line[9:] for line in text.splitlines() if line.startswith("MEASURED ")))


def bytes_of(folder):
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def same(found, steps, names):
    """found: {name: {step: value}}"""
    return all(found.get(name) == {step: value(step, i) for step in range(1, steps + 1)} for i, name in enumerate(names))


def exported(build, run, names):
    """{name: {step: number}} of a run, as `ramet runs export` gives it."""
    text = subprocess.run([build / "ramet", "runs", "export", run, "--format", "csv"], check=True, capture_output=True,
                          text=True).stdout
    found = {name: {} for name in names}
    for row in csv.DictReader(text.splitlines()):
        for name in names:
            if row[name]:
                found[name][int(row["step"])] = float(row[name])
    return found


def ramet(build, folder, steps, names):
    text = subprocess.run([build / "bench/run_log", "same", folder, str(steps), ",".join(names)], check=True,
                          capture_output=True, text=True).stdout
    run = pathlib.Path(folder) / "run"
    return {**json.loads(text), "bytes": (run / "log.ramet").stat().st_size,
            "same_points": same(exported(build, run, names), steps, names)}


def wandb_offline(build, folder, steps, names):
    text = run_python(WANDB, folder, steps, ",".join(names))
    path = next(pathlib.Path(folder).rglob("*.wandb"))
    # W&B's own reader is in its `wandb sync` alone, which needs a server: Ramet's importer reads the file.
    runs = pathlib.Path(folder) / "imported"
    subprocess.run([build / "ramet", "runs", "import", path, "--run-dir", runs], check=True, capture_output=True)
    run = next(each.parent for each in runs.glob("*/log.ramet"))
    return {**measured(text), "bytes": path.stat().st_size, "same_points": same(exported(build, run, names), steps, names)}


def mlflow_sqlite(folder, steps, names, how):
    text = run_python(MLFLOW, folder, steps, ",".join(names), how)
    run = next(line[4:] for line in text.splitlines() if line.startswith("RUN "))
    found = {name: {int(step): number for step, number in points.items()}
             for name, points in json.loads(run_python(MLFLOW_READ, folder, run, ",".join(names))).items()}
    return {**measured(text), "bytes": bytes_of(folder), "same_points": same(found, steps, names)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--steps", default=10_000, type=int)
    parser.add_argument("--metrics", default=4, type=int, choices=range(1, len(NAMES) + 1))
    asked = parser.parse_args()
    names = NAMES[: asked.metrics]
    for who, how in (("ramet", lambda f: ramet(asked.build, f, asked.steps, names)),
                     ("wandb offline", lambda f: wandb_offline(asked.build, f, asked.steps, names)),
                     ("mlflow sqlite, log_metrics", lambda f: mlflow_sqlite(f, asked.steps, names, "steps")),
                     ("mlflow sqlite, log_batch", lambda f: mlflow_sqlite(f, asked.steps, names, "batch"))):
        with tempfile.TemporaryDirectory(prefix="ramet-trackers-") as folder:
            points = asked.steps * asked.metrics
            result = how(folder)
        print(json.dumps({"tracker": who, "points": points, **result,
                          "points_a_second": round(points / max(result["kept_seconds"], 1e-9)),
                          "load": round(os.getloadavg()[0], 2)}), flush=True)


if __name__ == "__main__":
    main()
