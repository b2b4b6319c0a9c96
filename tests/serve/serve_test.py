"""`ramet serve` as users start it: its line, its end, scripts with a token, restarts, folders that cannot be written."""
import http.client
import http.cookiejar
import json
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("RAMET_PROGRAM", ROOT / "build/ramet")).resolve()
NOBODY = 65534


def can_serve():
    if not PROGRAM.exists():
        return False
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([PROGRAM, "serve", "--run-dir", folder + "/none", "--port", "0"], capture_output=True,
                              text=True, timeout=60)
        return "libmicrohttpd" not in done.stderr


def make_run(runs, name):
    """A run without a log: what one has that was killed at once."""
    run = pathlib.Path(runs) / name
    run.mkdir(parents=True)
    (run / "recipe.toml").write_text('name = "small"\n\n[train]\nseed = 3\n')
    (run / "machine.json").write_text("{}")
    (run / "plan.json").write_text('{"version": 1, "stages": []}')
    (run / "run.json").write_text(json.dumps({"id": name, "name": "small", "started": "2026-11-01T10:00:00.000000+0000",
                                              "version": "0.1.0", "command": ["ramet", "train"]}))


class Server:
    """A running `ramet serve`; `link` is the line that it printed."""

    def __init__(self, runs, *options, **how):
        environment = dict(os.environ, XDG_STATE_HOME=str(pathlib.Path(runs).parent / "state"))
        self.process = subprocess.Popen([PROGRAM, "serve", "--run-dir", str(runs), *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **how)
        self.link = self.process.stdout.readline().strip()
        if not self.link:
            raise AssertionError(self.process.stderr.read())
        self.url = self.link.split("/?")[0].rstrip("/")
        self.port = urllib.parse.urlsplit(self.url).port if self.link.startswith("http") else None

    def stop(self, how=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(how)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Browser:
    """Keeps cookies, as browsers do."""

    def __init__(self, server):
        self.url = server.url
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    def ask(self, target, method="GET", body=None, **headers):
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        url = target if target.startswith("http") else self.url + target
        request = urllib.request.Request(url, method=method, data=body, headers=names)
        try:
            with self.opener.open(request, timeout=20) as reply:
                return reply.status, reply.read(), reply.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read(), error.headers


@unittest.skipUnless(can_serve(), "no build/ramet that can serve")
class Serve(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ramet-serve-"))
        self.runs = self.folder / "runs"
        make_run(self.runs, "one")
        self.addCleanup(self.remove)

    def remove(self):
        for path in [self.folder, *self.folder.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
        shutil.rmtree(self.folder, ignore_errors=True)

    def test_prints_one_line_and_ends_in_order(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            server = Server(self.runs, "--port", 0)
            self.assertRegex(server.link, r"^http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{64}$")
            streaming = http.client.HTTPConnection("127.0.0.1", server.port)  # an open page does not hold it up
            browser = Browser(server)
            self.assertEqual(browser.ask(server.link)[0], 200)
            cookie = "; ".join(f"{c.name}={c.value}" for c in next(
                h for h in browser.opener.handlers if isinstance(h, urllib.request.HTTPCookieProcessor)).cookiejar)
            streaming.request("GET", "/api/v1/events", headers={"Cookie": cookie})
            self.assertEqual(streaming.getresponse().status, 200)
            began = time.monotonic()
            status, out, _ = server.stop(how)
            self.assertEqual((status, out), (0, ""))
            self.assertLess(time.monotonic() - began, 5)
            streaming.close()

    def test_json_line(self):
        server = Server(self.runs, "--port", 0, "--json", "--read-only")
        line = json.loads(server.link)
        self.assertEqual(line["event"], "serving")
        self.assertTrue(line["url"].startswith(line["address"] + "/?token="))
        self.assertTrue(line["read_only"])
        self.assertEqual(server.stop()[0], 0)

    def test_every_get_answers(self):
        with Server(self.runs, "--port", 0) as server:
            browser = Browser(server)
            self.assertEqual(browser.ask(server.link)[0], 200)
            arguments = {"id": "one", "file": "plan", "step": "1", "hash": "0" * 32, "name": "none"}
            queries = {"/api/v1/compare": "?runs=one", "/api/v1/importance": "?metric=loss", "/api/v1/sql": "?q=SELECT+1"}
            absent = {"trace", "{hash}", "{step}", "{name}"}
            paths = json.loads((ROOT / "docs/openapi.json").read_text())["paths"]
            asked = 0
            for path, methods in paths.items():
                if "get" not in methods or path == "/api/v1/events":
                    continue
                status, body, headers = browser.ask(path.format(**arguments) + queries.get(path, ""))
                wanted = 404 if path.split("/")[-1] in absent else 200
                self.assertEqual(status, wanted, f"{path}: {body[:200]}")
                self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
                self.assertIn("default-src", headers["Content-Security-Policy"])
                described = methods["get"]["responses"]["200"]["content"]
                got = headers["Content-Type"].split(";")[0]
                self.assertIn(got, list(described) if wanted == 200 else ["application/problem+json"], path)
                asked += 1
            self.assertGreater(asked, 18)

    def test_scripts_have_a_token(self):
        token_file = self.folder / "token"
        with Server(self.runs, "--port", 0, "--token-file", token_file) as server:
            self.assertEqual(stat.S_IMODE(token_file.stat().st_mode), 0o600)
            script = Browser(server)
            self.assertEqual(script.ask("/api/v1/runs")[0], 401)
            bearer = "Bearer " + token_file.read_text().strip()
            status, body, _ = script.ask("/api/v1/runs", Authorization=bearer)
            self.assertEqual((status, json.loads(body)["total"]), (200, 1))
            status, body, _ = script.ask("/api/v1/runs/one", "PATCH", b'{"tags": ["kept"]}', Authorization=bearer,
                                         Content_Type="application/json")
            self.assertEqual((status, json.loads(body)["tags"]), (200, ["kept"]))

    def test_a_session_goes_on_after_a_restart(self):
        with Server(self.runs, "--port", 0) as server:
            port = server.port
        with Server(self.runs, "--port", port) as server:
            browser = Browser(server)
            self.assertEqual(browser.ask(server.link)[0], 200)
        with Server(self.runs, "--port", port) as server:
            self.assertEqual(browser.ask("/api/v1/runs")[0], 200)
            self.assertEqual(Browser(server).ask("/api/v1/runs")[0], 401)

    def test_a_folder_that_cannot_be_written(self):
        self.folder.chmod(0o755)
        self.runs.chmod(0o555)
        # Root may write everywhere, so it hands over to somebody who may not.
        how = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        with Server(self.runs, "--port", 0, "--no-token", **how) as server:
            self.assertEqual(json.loads(Browser(server).ask("/api/v1/runs")[1])["total"], 1)
            status, body, _ = Browser(server).ask("/api/v1/views/a", "PUT", b"{}", Content_Type="application/json")
            self.assertEqual(status, 500, body)
        self.assertEqual(sorted(path.name for path in self.runs.iterdir()), ["one"])

    def test_two_servers_on_one_folder(self):
        with Server(self.runs, "--port", 0, "--no-token") as first, Server(self.runs, "--port", 0, "--no-token") as second:
            Browser(first).ask("/api/v1/runs/one", "PATCH", b'{"note": "from the first"}', Content_Type="application/json")
            for _ in range(100):
                row = json.loads(Browser(second).ask("/api/v1/runs/one")[1])
                if row["note"]:
                    break
                time.sleep(0.1)
            self.assertEqual(row["note"], "from the first")

    def test_faults_are_said(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            for options, status, words in ((["--port", port], 1, "the port is taken"),
                                           (["--port", "70000"], 2, "--port"),
                                           (["--run-dir", str(self.folder / "none"), "--port", "0"], 2, "none"),
                                           (["--host", "0.0.0.0", "--no-token", "--port", "0"], 2, "--trust-proxy-header"),
                                           (["--host", "no such host"], 2, "no such address"),
                                           (["--allow-host", "a b", "--port", "0"], 2, "--allow-host"),
                                           (["--ui-dir", "none", "--port", "0"], 2, "--ui-dir")):
                folder = [] if "--run-dir" in options else ["--run-dir", str(self.runs)]
                done = subprocess.run([PROGRAM, "serve", *folder, *options], capture_output=True, text=True,
                                      timeout=60, env=dict(os.environ, XDG_STATE_HOME=str(self.folder)))
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
