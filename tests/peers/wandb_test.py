"""`wandb sync` reads our .wandb files and sends them to a server that this test stands in for; we read those of W&B."""

import gzip
import http.server
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import peers

VALUES = [1.5, 0.1, math.inf, -math.inf, math.nan, 1e-30]
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


class FakeServer:
    """As much of W&B's server as `wandb sync` needs; keeps what is uploaded."""

    def __init__(self):
        server = self
        self.variables = []  # of the calls that make or change the run
        self.files = {}      # name -> lines
        self.exit_code = None

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer({})

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                self.answer(server.take(self.path, body))

            def answer(self, value):
                text = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def take(self, path, body):
        if path == "/graphql":
            call = json.loads(body)
            name = call.get("operationName") or re.search(r"(query|mutation)\s+(\w+)", call["query"])[2]
            if name != "UpsertBucket":
                return {"data": {"createRunFiles": {"runID": "x", "uploadHeaders": [], "files": []}}
                        if name == "CreateRunFiles" else {}}
            self.variables.append(call["variables"])
            project = {"id": "p", "name": "p", "entity": {"id": "e", "name": "e"}}
            bucket = {"id": "x", "name": "n", "displayName": "n", "description": None, "config": "{}", "sweepName": None,
                      "project": project, "historyLineCount": 0, "summaryMetrics": None}
            return {"data": {"upsertBucket": {"bucket": bucket, "inserted": True}}}
        if path.endswith("/file_stream"):
            sent = json.loads(body)
            for name, part in (sent.get("files") or {}).items():
                self.files.setdefault(name, {}).update(enumerate(part["content"], part["offset"]))
            self.exit_code = sent.get("exitcode", self.exit_code)
        return {}

    def history(self):
        return [json.loads(line) for _, line in sorted(self.files["wandb-history.jsonl"].items())]


@peers.needs("wandb")
class Wandb(peers.PointsTestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def environment(self, **more):
        folders = dict.fromkeys(("HOME", "WANDB_DIR", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"), str(self.folder))
        return dict(os.environ, **folders, **more)

    def synced(self, run):
        """What `wandb sync` sends of an exported run."""
        peers.ramet("runs", "export", run, "--format", "wandb", "--out", "wandb", "--project", "p", folder=self.folder)
        (folder,) = (self.folder / "wandb").glob("offline-run-*")
        server = FakeServer()
        self.addCleanup(server.close)
        done = subprocess.run([sys.executable, "-m", "wandb", "sync", "--yes", str(folder)], cwd=self.folder, timeout=300,
                              env=self.environment(WANDB_BASE_URL=server.url, WANDB_API_KEY="k" * 40), capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Finished syncing", done.stdout + done.stderr)
        return server

    def test_sync_sends_what_is_exported(self):
        run = peers.train(self.folder)
        server = self.synced(run)
        history = {}
        for row in server.history():
            for name, value in row.items():
                if not name.startswith("_"):
                    history.setdefault(name, []).append((row["_step"], float(value)))
        steps = [row["_step"] for row in server.history()]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertTrue(all(row["_timestamp"] > 1.7e9 for row in server.history()))
        expected = peers.points_of(run)
        self.assertEqual(set(history), set(expected))
        for name, points in expected.items():
            self.assert_same_points(points, history[name], name)
        first = server.variables[0]
        self.assertEqual((first["name"], first["project"]), (run.name, "p"))
        config = json.loads(first["config"])
        self.assertEqual(config["train"]["value"]["steps"], 6)
        self.assertEqual(config["model"]["value"]["kind"], "bert")
        self.assertEqual(server.exit_code, 0)

    def test_sync_sends_numbers_that_json_does_not_have(self):
        self.offline_run()
        (line,) = peers.imported(self.folder, self.folder / "wandb")
        (self.folder / "wandb").rename(self.folder / "theirs")
        sent = [row["train/loss"] for row in self.synced(self.folder / line["path"]).history() if "train/loss" in row]
        self.assertEqual([str(peers.number(value)) for value in sent], [str(value) for value in VALUES])

    def offline_run(self):
        subprocess.run([sys.executable, "-c", OFFLINE], env=self.environment(WANDB_MODE="offline", WANDB_SILENT="true"),
                       cwd=self.folder, check=True, timeout=300, capture_output=True)

    def test_files_of_wandb_are_imported(self):
        self.offline_run()
        lines = peers.imported(self.folder, self.folder / "wandb")
        self.assertEqual([line["event"] for line in lines], ["imported"])
        run = self.folder / lines[0]["path"]
        points = peers.points_of(run)
        self.assert_same_points(list(enumerate(VALUES)), points["train/loss"])
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
