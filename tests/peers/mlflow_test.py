"""MLflow's server takes our runs, and we read its databases."""

import json
import math
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import peers


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """MLflow's server with a database of its own, while the context lasts."""

    def __init__(self, folder):
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self):
        port = self.url.rsplit(":", 1)[1]
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1",
                   "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db", "--artifacts-destination",
                   str(self.folder / "mlartifacts")]
        environment = dict(os.environ, MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")
        self.log = open(self.folder / "server.log", "w")
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=self.log, stderr=self.log, env=environment,
                                        start_new_session=True)
        for _ in range(600):
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=2) as answer:
                    if answer.status == 200:
                        return self
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.5)
        self.__exit__()
        raise AssertionError("MLflow's server did not start:\n" + (self.folder / "server.log").read_text()[-3000:])

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()


def history(client, run_id, name):
    points = [(metric.step, metric.value) for metric in client.get_metric_history(run_id, name)]
    return sorted(points, key=lambda point: point[0])


@peers.needs("mlflow")
class Mlflow(peers.PointsTestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def check(self, client, run_id, expected):
        run = client.get_run(run_id)
        self.assertEqual(set(run.data.metrics), set(expected))
        for name, points in expected.items():
            self.assert_same_points(points, history(client, run_id, name), name)
        self.assertEqual(run.info.status, "FINISHED")
        self.assertEqual(run.data.params["train.steps"], "6")
        self.assertGreater(run.info.start_time, 1.7e12)
        self.assertGreaterEqual(run.info.end_time, run.info.start_time)

    def test_the_server_takes_our_runs(self):
        from mlflow.tracking import MlflowClient

        trained = peers.train(self.folder)
        expected = peers.points_of(trained)
        with Server(self.folder) as server:
            push = ["runs", "push", trained, "--mlflow", server.url, "--experiment", "of ours", "--json"]
            told = json.loads(peers.ramet(*push, folder=self.folder))
            self.assertTrue(told["created"])
            self.assertEqual(told["points"], sum(map(len, expected.values())))
            self.assertEqual(told["remarks"], [])
            client = MlflowClient(server.url)
            self.check(client, told["mlflow_run"], expected)
            files = {file.path for file in client.list_artifacts(told["mlflow_run"], "ramet")}
            self.assertIn("ramet/recipe.toml", files)
            again = json.loads(peers.ramet(*push, folder=self.folder))
            self.assertFalse(again["created"])
            self.assertEqual(again["mlflow_run"], told["mlflow_run"])
            self.check(client, told["mlflow_run"], expected)
            self.not_finite(server, client)
        # What the server has written comes back.
        lines = peers.imported(self.folder, self.folder / "mlflow.db")
        (line,) = [line for line in lines if line["source_id"] == told["mlflow_run"]]
        points = peers.points_of(self.folder / line["path"])
        for name, values in expected.items():
            self.assert_same_points(values, points[name], name)

    def not_finite(self, server, client):
        """Numbers that JSON does not have."""
        from torch.utils.tensorboard import SummaryWriter

        values = [1.5, math.inf, -math.inf, math.nan]
        with SummaryWriter(str(self.folder / "odd")) as writer:
            for step, value in enumerate(values):
                writer.add_scalar("x", value, step)
        (line,) = peers.imported(self.folder, self.folder / "odd")
        told = json.loads(peers.ramet("runs", "push", self.folder / line["path"], "--mlflow", server.url, "--json",
                                      folder=self.folder))
        got = dict(history(client, told["mlflow_run"], "x"))
        self.assertEqual(got[0], 1.5)
        self.assertGreaterEqual(got[1], sys.float_info.max)  # MLflow keeps infinities so
        self.assertLessEqual(got[2], -sys.float_info.max)
        self.assertTrue(math.isnan(got[3]))

    def test_a_database_of_mlflow_is_imported(self):
        from mlflow.tracking import MlflowClient

        uri = f"sqlite:///{self.folder}/mlflow.db"
        client = MlflowClient(uri)
        experiment = client.create_experiment("digits", artifact_location=str(self.folder / "files"))
        run = client.create_run(experiment, run_name="a run", start_time=1_700_000_000_000, tags={"stage": "prod"})
        values = [1.5, 0.1, math.inf, -math.inf, math.nan, 1e-300]
        for step, value in enumerate(values):
            client.log_metric(run.info.run_id, "train/loss", value, timestamp=1_700_000_001_000 + step, step=10 * step)
        for value in (3.0, 2.0, 1.0):  # without steps
            client.log_metric(run.info.run_id, "plain", value, timestamp=1_700_000_002_000 - int(value))
        client.log_param(run.info.run_id, "lr", 0.25)
        client.log_param(run.info.run_id, "on", True)
        client.log_param(run.info.run_id, "name", "x")
        client.set_terminated(run.info.run_id, "FAILED", 1_700_000_010_000)
        (line,) = peers.imported(self.folder, self.folder)
        self.assertEqual((line["event"], line["from"], line["source_id"]), ("imported", "mlflow", run.info.run_id))
        imported = self.folder / line["path"]
        points = peers.points_of(imported)
        self.assert_same_points([(10 * step, value) for step, value in enumerate(values)], points["train/loss"])
        self.assertEqual(points["plain"], [(0, 3), (1, 2), (2, 1)])
        self.assertEqual(peers.config_of(imported), {"lr": 0.25, "on": True, "name": "x"})
        self.assertIn('"failed"', peers.ramet("runs", "show", imported, "--json", folder=self.folder))
        self.assertTrue(imported.name.startswith("2023-11-14-a-run-"), imported.name)
        self.assertEqual([line["event"] for line in peers.imported(self.folder, self.folder)], ["already there"])


if __name__ == "__main__":
    unittest.main()
