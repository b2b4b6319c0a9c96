"""Trainers, indexers and servers that are killed at random moments: no point that anybody had seen is lost.

RAMET_KILLS=100 kills so many processes (default: 6)."""
import csv
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import serve_test  # noqa: E402

SMALL = ["model.layers=1", "model.hidden=16", "model.intermediate=32", "model.heads=2", "model.vocabulary_size=64",
         "train.micro_batch=1", "data.sequence_length=8", "data.masking.max_predictions=2", "train.steps=1000000",
         "train.evaluation.every=0"]


def ramet(*words):
    return subprocess.run([serve_test.PROGRAM, *map(str, words)], check=True, capture_output=True, text=True).stdout


def points_of(log_export):
    """{step: loss} of a run, as its log says."""
    return {int(row["step"]): float(row["loss"]) for row in csv.DictReader(log_export.splitlines()) if row.get("loss")}


class KillsTest(unittest.TestCase):
    def setUp(self):
        if not serve_test.can_serve():
            self.skipTest("this build has no `ramet serve`")

    def seen_by_the_server(self, server, run):
        """How many losses the page would show now, at least."""
        try:
            with urllib.request.urlopen(f"{server.url}/api/v1/runs/{run}/metrics", timeout=5) as answer:
                return {m["name"]: m["points"] for m in json.load(answer)}.get("loss", 0)
        except OSError:
            return 0

    def one_round(self, runs, number, chance):
        run = pathlib.Path(runs) / f"2026-01-01-killed-{number:06d}"
        trainer = subprocess.Popen([serve_test.PROGRAM, "train", str(serve_test.ROOT / "examples/bert-mini.toml"), "--run", run,
                                    "--json", *(word for key in SMALL for word in ("--set", key))],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        indexer = subprocess.Popen(["/bin/sh", "-c", 'while :; do "$0" runs reindex --run-dir "$1"; done', serve_test.PROGRAM, runs],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        server = serve_test.Server(runs, "--port", 0, "--no-token")
        seen = 0
        try:
            limit = time.monotonic() + 60
            while self.seen_by_the_server(server, run.name) == 0 and time.monotonic() < limit:
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 0.6))
            seen = self.seen_by_the_server(server, run.name)
        finally:
            kills = [trainer.kill, lambda: os.killpg(indexer.pid, signal.SIGKILL), server.process.kill]
            chance.shuffle(kills)
            for kill in kills:
                kill()
                time.sleep(chance.uniform(0, 0.05))
            for process in (trainer, indexer, server.process):
                process.wait()
            server.process.stdout.close()
            server.process.stderr.close()
        self.assertGreater(seen, 0, "the trainer's points never reached the server")
        return run, seen

    def test_no_point_is_lost(self):
        rounds = max(1, int(os.environ.get("RAMET_KILLS", "6")) // 3)
        chance = random.Random(7)
        with tempfile.TemporaryDirectory() as runs:
            for number in range(rounds):
                run, seen = self.one_round(runs, number, chance)
                logged = points_of(ramet("runs", "export", run, "--format", "csv"))
                self.assertEqual(sorted(logged), list(range(1, len(logged) + 1)), "steps are missing in the log")
                self.assertGreaterEqual(len(logged), seen, "the server had shown points that the log does not have")
                ramet("runs", "reindex", "--run-dir", runs)
                answer = ramet("runs", "sql", "--run-dir", runs, "--json",
                               f"SELECT points FROM run_metrics WHERE run = '{run.name}' AND metric = 'loss'")
                self.assertEqual(json.loads(answer.splitlines()[0])["points"], len(logged), answer)


if __name__ == "__main__":
    unittest.main()
