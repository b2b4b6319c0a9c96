#!/usr/bin/env python3
"""Serves ui/dist and a folder of runs by the page's API, without Ramet: for work on the page and for its browser tests where
there is no build/ramet. It reads every run whole and knows of the filter language only comparisons joined by and, or.

usage: server.py RUNS [--port N] [--ui FOLDER]     prints "http://127.0.0.1:PORT/" when it listens
"""
import argparse
import collections
import datetime
import gzip
import http.server
import json
import math
import pathlib
import re
import struct
import threading
import time
import tomllib
import urllib.parse

PAGE = pathlib.Path(__file__).resolve().parent.parent / "dist"
CSP = "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"


class Problem(Exception):
    def __init__(self, status, detail, **more):
        super().__init__(detail)
        self.status, self.body = status, {"title": detail, "detail": detail, "status": status, **more}


def read_log(path):
    """Metrics as {name: [(step, time, value)]} and events, from the frames of a run log."""
    data, at, names = path.read_bytes(), 0, {}
    series, events = collections.defaultdict(dict), []
    while (at := data.find(b"RLF1", at)) >= 0 and at + 12 <= len(data):
        size = struct.unpack_from("<I", data, at + 4)[0]
        payload = data[at + 12:at + 12 + size]
        at += 12 + size
        if payload[:1] == b"J":
            events.append(json.loads(payload[1:]))
        elif payload[:1] == b"S":
            names[struct.unpack_from("<I", payload, 1)[0]] = payload[5:].decode().split("\0")[:-1]
        elif payload[:1] == b"M":
            key, step, when = struct.unpack_from("<Iqd", payload, 1)
            for i, name in enumerate(names[key]):
                series[name][step] = (step, when, struct.unpack_from("<d", payload, 21 + 8 * i)[0])
    return {name: [points[s] for s in sorted(points)] for name, points in series.items()}, events


def flat(table, prefix=""):
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value if isinstance(value, (int, float, str, bool)) else json.dumps(value)


def finite(value):
    return value if value is not None and math.isfinite(value) else None


class Run:
    def __init__(self, folder):
        self.folder, self.id = folder, folder.name
        self.facts = json.loads((folder / "run.json").read_text())
        self.machine = json.loads((folder / "machine.json").read_text())
        self.config = dict(flat(tomllib.loads((folder / "recipe.toml").read_text())))
        self.load()

    def load(self):
        self.series, self.events = read_log(self.folder / "log.ramet")
        for path in sorted(self.folder.glob("system/*.ramet")):
            own, _ = read_log(path)
            self.series.update({f"system/{path.stem}/{name}": points for name, points in own.items()})
        path = self.folder / "annotations.json"
        self.notes = json.loads(path.read_text()) if path.exists() else {}
        self.started = datetime.datetime.strptime(self.facts["started"], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()

    def of(self, kind):
        return [event for event in self.events if event["event"] == kind]

    def value(self, key):
        """A left side of the filter language."""
        row = self.row([])
        if key in ("id", "name", "status", "group", "started", "steps"):
            return row[key]
        if key.startswith("config."):
            return self.config.get(key[7:])
        name, pick = key, lambda values: values[-1]
        if key.startswith(("min.", "max.")):
            name, pick = key[4:], min if key.startswith("min.") else max
        values = [p[2] for p in self.series.get(name, []) if math.isfinite(p[2])]
        return pick(values) if values else None

    def row(self, columns):
        last = max((p[-1] for n, p in self.series.items() if not n.startswith("system/")), default=(0, self.started, 0))
        end, axis = (self.of("end") or [None])[-1], (self.of("axis") or [{}])[-1]
        status = end["status"] if end else "killed"
        return {"id": self.id, "name": self.notes.get("name") or self.facts["name"], "status": status, "started": self.started,
                "ended": last[1], "steps": last[0], "group": self.notes.get("group", ""), "tags": self.notes.get("tags", []),
                "pinned": self.notes.get("pinned", False), "colour": self.notes.get("colour", ""),
                "archived": self.notes.get("archived", False), "note": self.notes.get("note", ""), "units": axis.get("units", "tokens"),
                "samples_per_step": axis.get("samples_per_step", 0), "units_per_step": axis.get("units_per_step", 0),
                "alerts": len(self.of("alert")), "parent": (self.of("lineage") or [{}])[-1].get("from", ""),
                "columns": {column: self.value(column) for column in columns}}

    def files(self):
        names = [n for n in ("plan", "liveness", "program", "times") if (self.folder / f"{n}.json").exists()]
        return names + ["recipe", "machine"] + [f"numerics/{int(p.stem.split('-')[1])}" for p in sorted(self.folder.glob("numerics/*.json"))]

    def detail(self):
        return {**self.row([]), "config": self.config, "facts": self.facts, "machine": self.machine,
                "start": (self.of("start") or [None])[-1], "end": (self.of("end") or [None])[-1], "axis": (self.of("axis") or [None])[-1],
                "events": len(self.events), "alert_events": self.of("alert"), "lineage": self.of("lineage"), "children": [],
                "checkpoints": [{"name": p.name, "step": int(p.name.split("-")[-1]), "bytes": sum(f.stat().st_size for f in p.rglob("*"))}
                                for p in sorted(self.folder.glob("checkpoints/step-*"))], "files": self.files(), "ranks": 1}

    def metrics(self):
        rows = []
        for name, points in sorted(self.series.items()):
            values = [p[2] for p in points if math.isfinite(p[2])]
            rows.append({"name": name, "kind": "system" if name.startswith("system/") else "metric", "points": len(points),
                         "first_step": points[0][0], "last_step": points[-1][0], "min": min(values, default=None),
                         "max": max(values, default=None), "last": finite(points[-1][2]), "not_finite": len(points) - len(values)})
        return rows

    def file(self, name):
        if name == "recipe":
            return (self.folder / "recipe.toml").read_text()
        path = self.folder / (f"numerics/step-{int(name[9:]):08}.json" if name.startswith("numerics/") else f"{name}.json")
        if not path.exists():
            raise Problem(404, f"the run has no {name}")
        return json.loads(path.read_text())

    def media(self):
        return [{k: e.get(k) for k in ("kind", "name", "step", "time", "artifact", "type", "bytes", "caption")} for e in self.of("logged")]


OPERATIONS = {"=": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
              ">": lambda a, b: a > b, ">=": lambda a, b: a >= b, "~": lambda a, b: str(b).lower() in str(a).lower()}
TERM = re.compile(r'\s*(?:(?P<and>and\b)|(?P<or>or\b)|(?P<open>\()|(?P<close>\))|(?P<key>[\w./-]+)\s*(?P<op>!=|<=|>=|[=<>~])\s*(?P<value>"(?:\\.|[^"\\])*"|[^\s()]+))')


def matcher(text):
    """A function of a run; refuses what it cannot read, with the place."""
    parts, at = [], 0
    while at < len(text.rstrip()):
        match = TERM.match(text, at)
        if not match:
            raise Problem(400, "the filter cannot be read here", position=at + len(text[at:]) - len(text[at:].lstrip()))
        at = match.end()
        if match["key"]:
            raw = match["value"]
            value = json.loads(raw) if raw.startswith('"') or re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?|true|false", raw) else raw
            parts.append(("term", match["key"], match["op"], value))
        else:
            parts.append((match.lastgroup,))

    def term(run, key, op, value):
        found = run.notes.get("tags", []) if key == "tag" else [run.value(key)]
        try:
            return any(v is not None and OPERATIONS[op](v, value) for v in found)
        except TypeError:
            return False

    def evaluate(run):
        words = []
        for part in parts:
            words.append({"and": " and ", "or": " or ", "open": "(", "close": ")"}.get(part[0]) or str(term(run, *part[1:])))
        try:
            return eval("".join(words) or "True", {"__builtins__": {}})  # nothing but True, False, and, or, brackets
        except SyntaxError:
            raise Problem(400, "the filter ends too early", position=len(text)) from None
    return evaluate


def buckets_of(x, y, count):
    """As the server makes them: few points raw, else buckets of equal width with their extremes."""
    n = len(x)
    if n <= 2 * count:
        return struct.pack(f"<II{n}d{n}d", n, 1, *x, *y)
    width, rows, i = (x[-1] - x[0]) / count or 1, [], 0
    while i < n:
        bucket, values, first = min(count - 1, int((x[i] - x[0]) / width)), [], i
        while i < n and min(count - 1, int((x[i] - x[0]) / width)) == bucket:
            if math.isfinite(y[i]):
                values.append(y[i])
            i += 1
        nan = math.nan
        rows.append((x[i - 1], min(values, default=nan), max(values, default=nan), values[-1] if values else nan, i - first))
    columns, m = list(zip(*rows)), len(rows)
    return struct.pack(f"<II{4 * m}d{m}I{4 * (m % 2)}x", m, 0, *columns[0], *columns[1], *columns[2], *columns[3], *columns[4])


def series(run, metric, axis, low, high, count):
    points = run.series.get(metric, []) if run else []
    system, detail = metric.startswith("system/"), run.row([]) if run else {}
    factor = {"samples": detail.get("samples_per_step") or 1, "units": detail.get("units_per_step") or 1}.get(axis, 1)
    if axis == "relative_time":
        x = [p[1] - run.started for p in points]
    elif axis == "time" or system:
        x = [p[1] for p in points]
    else:
        x = [p[0] * factor for p in points]
    kept = [(a, p[2]) for a, p in zip(x, points) if (low is None or a >= low) and (high is None or a <= high)]
    packed = bytearray(buckets_of([a for a, _ in kept], [float(v) for _, v in kept], count))
    if system and axis not in ("time", "relative_time"):
        packed[4] |= 2
    return bytes(packed)


def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    result = [0.0] * len(values)
    for place, i in enumerate(order):
        result[i] = place
    return result


def correlation(a, b):
    a, b = ranks(a), ranks(b)
    ma, mb = sum(a) / len(a), sum(b) / len(b)
    top = sum((x - ma) * (y - mb) for x, y in zip(a, b))
    return top / math.sqrt(sum((x - ma) ** 2 for x in a) * sum((y - mb) ** 2 for y in b) or 1)


class Site:
    def __init__(self, folder, page):
        self.folder, self.page = folder, page
        self.runs = {}
        for path in sorted(folder.glob("*/run.json")):
            self.runs[path.parent.name] = Run(path.parent)
        self.kept = {"views": {}, "reports": {}}
        self.streams, self.lock = [], threading.Lock()

    def run(self, name):
        if name not in self.runs:
            raise Problem(404, f"there is no run '{name}'")
        return self.runs[name]

    def found(self, query):
        matches = matcher(query.get("filter", ""))
        return [run for run in self.runs.values() if matches(run) and (query.get("archived") or not run.notes.get("archived"))]

    def list(self, query):
        found, sort = self.found(query), query.get("sort", "-started")
        key = sort.lstrip("-")
        found.sort(key=lambda run: (run.value(key) is not None, str(run.value(key)) if isinstance(run.value(key), str) else run.value(key) or 0),
                   reverse=sort.startswith("-"))
        found.sort(key=lambda run: not run.notes.get("pinned", False))
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 100))
        columns = [c for c in query.get("columns", "").split(",") if c]
        return {"total": len(found), "runs": [run.row(columns) for run in found[offset:offset + limit]]}

    def keys(self):
        config, metrics = collections.defaultdict(list), collections.Counter()
        for run in self.runs.values():
            metrics.update(run.series)
            for key, value in run.config.items():
                config[key].append(value)
        distinct = {key: sorted(set(values), key=str) for key, values in config.items()}
        return {"config": [{"key": k, "runs": len(v), "type": "text" if isinstance(v[0], str) else "number",
                            "values": distinct[k] if len(distinct[k]) <= 20 else []} for k, v in sorted(config.items())],
                "metrics": [{"key": k, "runs": n} for k, n in sorted(metrics.items())],
                "groups": sorted({r.notes["group"] for r in self.runs.values() if r.notes.get("group")}),
                "tags": sorted({t for r in self.runs.values() for t in r.notes.get("tags", [])})}

    def compare(self, ids):
        runs = [self.run(name) for name in ids]
        keys = sorted({key for run in runs for key in run.config})
        differ = [{"key": k, "values": [r.config.get(k) for r in runs]} for k in keys if len({json.dumps(r.config.get(k)) for r in runs}) > 1]
        stages = [max(r.file("plan")["stages"], key=lambda s: s["planned_bytes"]) for r in runs]
        memory = [{"class": "planned", "bytes": [s["planned_bytes"] for s in stages]}]
        memory += [{"class": c, "bytes": [s["classes"][c]["at_peak"] for s in stages]} for c in stages[0]["classes"]]
        names = sorted({name for run in runs for name in run.series})
        return {"runs": ids, "config": differ, "same": len(keys) - len(differ), "memory": memory,
                "metrics": [{"name": n, "values": [finite(r.value(n)) for r in runs]} for n in names],
                "step_seconds": [r.file("times")["step_seconds"] for r in runs]}

    def importance(self, query):
        metric = query["metric"]
        found = [run for run in self.found(query) if run.value(metric) is not None]
        rows = []
        for key in sorted({key for run in found for key in run.config}):
            values = [run.config.get(key) for run in found]
            if len(set(values)) > 1 and all(isinstance(v, (int, float)) for v in values):
                rows.append({"key": key, "correlation": correlation(values, [run.value(metric) for run in found]), "runs": len(found)})
        total = sum(abs(row["correlation"]) for row in rows) or 1
        for row in rows:
            row["importance"] = abs(row["correlation"]) / total
        return {"metric": metric, "runs": len(found), "keys": sorted(rows, key=lambda r: -r["importance"])}

    def sweep(self, name):
        runs = [run for run in self.runs.values() if run.notes.get("group") == name]
        keys = [k for k in sorted({k for r in runs for k in r.config}) if len({r.config.get(k) for r in runs}) > 1]
        trials = [{"run": r.id, "status": r.row([])["status"], "values": {k: r.config[k] for k in keys}, "metric": r.value("loss"),
                   "steps": r.row([])["steps"], "stopped_early": False} for r in runs]
        best = min((t for t in trials if t["metric"] is not None), key=lambda t: t["metric"], default=None)
        return {"name": name, "method": "grid", "metric": "loss", "goal": "minimize", "status": "done", "runs": len(runs), "running": 0,
                "best": best and {"run": best["run"], "value": best["metric"]}, "started": min((r.started for r in runs), default=0),
                "config": "# a sweep of the fixture\n", "parameters": [{"key": k, "values": []} for k in keys], "trials": trials, "events": []}

    def annotate(self, name, changes):
        run = self.run(name)
        run.notes.update(changes)
        (run.folder / "annotations.json").write_text(json.dumps({"version": 1, **run.notes}))
        self.hint("runs", {})
        return run.row([])

    def hint(self, event, data):
        with self.lock:
            for stream in self.streams:
                stream.append(f"event: {event}\ndata: {json.dumps(data)}\n\n")

    def export(self, request):
        runs = [self.run(name) for name in request["runs"]]
        columns = sorted({f"config.{k}" for r in runs for k in r.config} | {k for r in runs for k in r.series})
        data = {"version": 1, "title": request.get("title", ""), "hash": request["view"], "made": time.time(), "ramet": "mock",
                "runs": [r.row(columns) for r in runs], "details": {r.id: r.detail() for r in runs}, "metrics": {r.id: r.metrics() for r in runs},
                "events": {r.id: r.events for r in runs}, "files": {r.id: {name: r.file(name) for name in r.files()} for r in runs},
                "media": {r.id: r.media() for r in runs}, "artifacts": {}, "reports": self.kept["reports"],
                "series": {r.id: {n: {"step": [p[0] for p in ps], "time": [p[1] for p in ps], "value": [finite(p[2]) for p in ps]}
                                  for n, ps in r.series.items()} for r in runs}}
        page = gzip.decompress((self.page / "index.html.gz").read_bytes()).decode()
        text = json.dumps(data).replace("<", "\\u003c")
        def script(match):
            code = gzip.decompress((self.page / (match[1] + ".gz")).read_bytes()).decode()
            return f'<script>window.__RAMET_EXPORT__ = {text}</script><script type="module">{code}</script>'
        def style(match):
            return f'<style>{gzip.decompress((self.page / (match[1] + ".gz")).read_bytes()).decode()}</style>'
        page = re.sub(r'<script type="module"[^>]*src="\./([^"]+)"[^>]*></script>', script, page)
        return re.sub(r'<link rel="stylesheet"[^>]*href="\./([^"]+)"[^>]*>', style, page)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site = None

    def log_message(self, *arguments):
        pass

    def send(self, status, body, kind="application/json", headers=()):
        if not isinstance(body, bytes):
            body = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), ("Content-Security-Policy", CSP), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def handle_any(self):
        url = urllib.parse.urlsplit(self.path)
        path, query = urllib.parse.unquote(url.path), dict(urllib.parse.parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0) or 0))
        try:
            if path.startswith("/api/v1/"):
                self.api(self.command, path[8:].split("/"), query, body)
            else:
                name = path.lstrip("/") or "index.html"
                entry = next((f for f in json.loads((self.site.page / "manifest.json").read_text())["files"] if f["name"] == name), None)
                if not entry:
                    raise Problem(404, f"there is no file '{name}'")
                self.send(200, (self.site.page / (name + ".gz")).read_bytes(), entry["type"], [("Content-Encoding", "gzip")])
        except Problem as problem:
            self.send(problem.status, problem.body, "application/problem+json")
        except (BrokenPipeError, ConnectionResetError):
            pass

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def api(self, method, parts, query, body):
        site = self.site
        if parts == ["version"]:
            return self.send(200, {"version": "mock", "api": 1, "read_only": False, "runs_folder": str(site.folder), "runs": len(site.runs), "token_required": False})
        if parts == ["events"]:
            return self.stream()
        if parts == ["runs"]:
            return self.send(200, site.list(query))
        if parts[0] == "runs" and method == "PATCH":
            return self.send(200, site.annotate(parts[1], json.loads(body)))
        if parts[0] == "runs":
            run = site.run(parts[1])
            if len(parts) == 2:
                return self.send(200, run.detail())
            if parts[2] == "files":
                found = run.file("/".join(parts[3:]))
                return self.send(200, found, "text/plain" if isinstance(found, str) else "application/json")
            if parts[2] == "artifacts":
                return self.send(200, (run.folder / "artifacts" / pathlib.Path(parts[3]).name).read_bytes(),
                                 next(m["type"] for m in run.media() if m["artifact"] == parts[3]))
            if parts[2] == "events":
                return self.send(200, [{"time": 0, **e} for e in run.events if not query.get("kind") or e["event"] == query["kind"]])
            if parts[2] in ("metrics", "media"):
                return self.send(200, getattr(run, parts[2])())
        if parts == ["series"]:
            asked = json.loads(body)
            packed = [series(site.runs.get(r["run"]), r["metric"], asked["x"], asked["from"], asked["to"], asked["buckets"]) for r in asked["requests"]]
            return self.send(200, b"".join(packed), "application/octet-stream")
        if parts == ["keys"]:
            return self.send(200, site.keys())
        if parts == ["compare"]:
            return self.send(200, site.compare(query["runs"].split(",")))
        if parts == ["importance"]:
            return self.send(200, site.importance(query))
        if parts == ["sql"]:
            return self.send(200, {"columns": ["name"], "rows": [[name] for name in site.runs], "truncated": False})
        if parts[0] == "sweeps":
            names = sorted({r.notes["group"] for r in site.runs.values() if r.notes.get("group")})
            return self.send(200, site.sweep(parts[1]) if len(parts) > 1 else [site.sweep(name) for name in names])
        if parts == ["export", "html"]:
            return self.send(200, site.export(json.loads(body)), "text/html; charset=utf-8")
        if parts[0] in site.kept:
            return self.documents(method, site.kept[parts[0]], parts, body)
        raise Problem(404, "there is no such address")

    def documents(self, method, kept, parts, body):
        if len(parts) == 1:
            return self.send(200, [{"name": n, "modified": time.time(), "bytes": len(t), "title": n} for n, t in sorted(kept.items())])
        name = parts[1]
        if method == "PUT":
            kept[name] = body.decode()
            return self.send(204, b"")
        if name not in kept:
            raise Problem(404, f"there is no '{name}'")
        if method == "DELETE":
            del kept[name]
            return self.send(204, b"")
        return self.send(200, kept[name], "text/markdown; charset=utf-8" if parts[0] == "reports" else "application/json")

    def stream(self):
        lines = [": hello\n\n"]
        with self.site.lock:
            self.site.streams.append(lines)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                with self.site.lock:
                    waiting, lines[:] = list(lines), []
                for line in waiting:
                    self.wfile.write(line.encode())
                self.wfile.flush()
                time.sleep(0.2)
        except OSError:
            with self.site.lock:
                self.site.streams.remove(lines)
            self.close_connection = True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=pathlib.Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ui", type=pathlib.Path, default=PAGE)
    options = parser.parse_args()
    Handler.site = Site(options.runs, options.ui)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_address[1]}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
