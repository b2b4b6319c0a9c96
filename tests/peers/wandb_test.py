"""W&B's own reader reads our .wandb files, and we read those of W&B."""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import peers

OFFLINE = """
import math, os, wandb
run = wandb.init(project="peers", name="a name", group="g", tags=["one", "two"], notes="a note",
                 config={"lr": 0.25, "model": {"layers": 3, "name": "x"}, "on": True, "list": [1, 2]})
values = [1.5, 0.1, math.inf, -math.inf, math.nan, 1e-30]
for step, value in enumerate(values):
    run.log({"train/loss": value, "nested": {"a": step}})
run.log({"late": 7}, step=100)
run.log({"weights": wandb.Histogram([1, 2, 2, 3])})
run.summary["best"] = 0.125
run.finish()
"""


def records(path):
    """All records of a file by W&B's own reader."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    store = DataStore()
    store.open_for_scan(str(path))
    found = []
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        found.append(record)
    return found


@peers.needs("wandb")
class Wandb(peers.PointsTestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_reads_what_is_exported(self):
        run = peers.train(self.folder)
        peers.ramet("runs", "export", run, "--format", "wandb", "--out", "wandb", "--project", "p", folder=self.folder)
        (file,) = (self.folder / "wandb").glob("offline-run-*/run-*.wandb")
        found = records(file)
        kinds = [record.WhichOneof("record_type") for record in found]
        self.assertEqual(kinds[:2], ["header", "run"])
        self.assertEqual(kinds[-2:], ["exit", "footer"])
        self.assertEqual([record.num for record in found], list(range(1, len(found) + 1)))
        history = {}
        steps = []
        for record in found:
            if record.WhichOneof("record_type") != "history":
                continue
            row = {item.key: json.loads(item.value_json) for item in record.history.item}
            self.assertEqual(row["_step"], record.history.step.num)
            steps.append(row["_step"])
            for name, value in row.items():
                if not name.startswith("_"):
                    history.setdefault(name, []).append((row["_step"], float(value)))
        self.assertEqual(steps, sorted(set(steps)))
        expected = peers.points_of(run)
        self.assertEqual(set(history), set(expected))
        for name, points in expected.items():
            self.assert_same_points(points, history[name], name)
        described = found[1].run
        self.assertEqual((described.run_id, described.project), (run.name, "p"))
        config = {tuple(item.nested_key) or item.key: json.loads(item.value_json) for item in described.config.update}
        self.assertEqual(config["train", "steps"], 6)
        self.assertEqual(config["name"], "peers")
        self.assertEqual(found[-2].exit.exit_code, 0)

    def offline_run(self):
        environment = dict(os.environ, WANDB_MODE="offline", WANDB_SILENT="true", HOME=str(self.folder),
                           WANDB_DIR=str(self.folder), WANDB_CONFIG_DIR=str(self.folder), WANDB_CACHE_DIR=str(self.folder),
                           WANDB_DATA_DIR=str(self.folder))
        subprocess.run([sys.executable, "-c", OFFLINE], env=environment, cwd=self.folder, check=True, timeout=300,
                       capture_output=True)

    def test_files_of_wandb_are_imported(self):
        self.offline_run()
        lines = peers.imported(self.folder, self.folder / "wandb")
        self.assertEqual([line["event"] for line in lines], ["imported"])
        run = self.folder / lines[0]["path"]
        points = peers.points_of(run)
        values = [1.5, 0.1, math.inf, -math.inf, math.nan, 1e-30]
        self.assert_same_points(list(enumerate(values)), points["train/loss"])
        self.assert_same_points([(step, step) for step in range(6)], points["nested.a"])
        self.assertEqual(points["late"], [(100, 7)])
        self.assertEqual([value for _, value in points["best"]], [0.125])
        self.assertEqual(peers.config_of(run), {"lr": 0.25, "model.layers": 3, "model.name": "x", "on": True, "list": [1, 2]})
        facts = json.loads((run / "run.json").read_text())
        self.assertEqual((facts["name"], facts["imported"]["from"], facts["imported"]["source"]), ("a name", "wandb", "peers"))
        said = json.loads((run / "annotations.json").read_text())
        self.assertEqual((said["tags"], said["note"], said["group"]), (["one", "two"], "a note", "g"))
        shown = json.loads(peers.ramet("runs", "show", run, "--json", folder=self.folder))
        self.assertEqual(shown["status"], "done")
        again = peers.imported(self.folder, self.folder / "wandb")
        self.assertEqual([line["event"] for line in again], ["already there"])


if __name__ == "__main__":
    unittest.main()
