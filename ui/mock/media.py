#!/usr/bin/env python3
"""Adds to a run what a user's program would log: images, a table, a text, histograms over steps, alerts, system metrics.

usage: media.py RUN
"""
import json
import math
import pathlib
import struct
import sys
import time
import zlib

POLYNOMIAL = 0x82F63B78
TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
    TABLE.append(byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def frame(payload):
    return b"RLF1" + struct.pack("<II", len(payload), crc32c(payload)) + payload


def event(value):
    return frame(b"J" + json.dumps(value).encode())


def png(size, colour):
    """A square picture; `colour` gives (r, g, b) of (x, y)."""
    rows = b"".join(b"\0" + bytes(c for x in range(size) for c in colour(x, y)) for y in range(size))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def main():
    run = pathlib.Path(sys.argv[1])
    (run / "artifacts").mkdir(exist_ok=True)
    start, log, number = time.time(), b"", 0

    def logged(kind, name, step, contents, media_type, caption=""):
        nonlocal log, number
        number += 1
        name_of_file = f"{number:032x}"
        (run / "artifacts" / name_of_file).write_bytes(contents)
        log += event({"event": "logged", "kind": kind, "name": name, "step": step, "time": start + step / 30, "artifact": name_of_file,
                      "type": media_type, "bytes": len(contents), "caption": caption})

    for step in range(10, 61, 10):
        logged("image", "attention/layer0", step, png(64, lambda x, y, s=step: (int(127 + 127 * math.sin((x + s) / 6)), int(127 + 127 * math.cos(y / (4 + s / 20))), 90)), "image/png", "attention weights of head 0")
        spread = 1 + step / 20
        counts = [int(2000 * math.exp(-((b - 16) / (2 * spread)) ** 2)) for b in range(32)]
        logged("histogram", "gradients/layer0", step, json.dumps({"edges": [b / 4 - 4 for b in range(33)], "counts": counts}).encode(), "application/json")
    logged("table", "samples", 60, json.dumps({"columns": ["input", "target", "predicted", "loss"], "rows": [["the cat [MASK]", "sat", "sat", 0.21], ["a <b>dog</b> [MASK]", "barks", "runs", 3.75]]}).encode(), "application/json")
    logged("text", "notes", 60, b"# Samples\n\nThe model *continues* texts:\n\n- one\n- two <script>alert(1)</script>\n", "text/markdown")
    log += event({"event": "axis", "samples_per_step": 16, "units_per_step": 512, "units": "tokens"})
    log += event({"event": "alert", "kind": "spike", "level": "warn", "step": 42, "time": start + 1, "title": "Spike of the loss", "text": "6.9 after a mean of 6.2"})
    with open(run / "log.ramet", "ab") as file:
        file.write(log)
    (run / "system").mkdir(exist_ok=True)
    names = ["cpu_percent", "memory_bytes", "memory_available_bytes", "disk_read_bytes_per_second", "disk_write_bytes_per_second", "process_memory_bytes"]
    system = frame(b"S" + struct.pack("<I", 0) + b"".join(n.encode() + b"\0" for n in names))
    first = json.loads((run / "run.json").read_text())["started"]
    begin = time.mktime(time.strptime(first[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
    for i in range(40):
        values = [55 + 40 * math.sin(i / 5), 3e9 + 1e7 * i, 2e10 - 1e7 * i, 1e6 * (i % 7), 5e5 * (i % 3), 6e7 + 1e5 * i]
        system += frame(b"M" + struct.pack("<Iqd6d", 0, i, begin + i * 0.1, *values))
    (run / "system" / "host-0.ramet").write_bytes(system)


if __name__ == "__main__":
    main()
