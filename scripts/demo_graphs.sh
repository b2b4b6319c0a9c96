#!/usr/bin/env bash
# SchNet learns the orbital gaps of molecules in a few minutes, and draws its predictions: see docs/graphs.md. Run
# through `make demo-graphs`, which builds first. Needs QM9 as NumPy arrays (docs/graphs.md), and Python with NumPy.
#
#   DEMO_QM9        folder with z.npy, pos.npy, ptr.npy, y.npy (default: qm9 in the folder RAMET_DATA)
#   DEMO_MOLECULES  molecules to train on (default: 10000)
#   DEMO_EPOCHS     epochs of each training (default: 12)
#   DEMO_SEEDS      trainings, whose spread is the prediction's error bar (default: 3)
#   DEMO_THREADS    threads (default: all processors)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ramet=build/ramet
work=build/demo-graphs
data=${DEMO_QM9:-${RAMET_DATA:-}/qm9}
molecules=${DEMO_MOLECULES:-10000}
threads=${DEMO_THREADS:-$(nproc)}
python=.venv/bin/python
[ -x "$python" ] || python=python3

say() { printf '\n== %s\n' "$*"; }

if [ ! -f "$data/pos.npy" ]; then
  echo "QM9 is not in '$data': set DEMO_QM9 to a folder with z.npy, pos.npy, ptr.npy and y.npy (docs/graphs.md)" >&2
  exit 1
fi

say "$molecules molecules of QM9 to learn from, 1000 to check, 1000 to predict"
mkdir -p "$work"
set=$work/qm9-$molecules.safetensors
if [ ! -f "$set" ]; then
  "$ramet" graphs prepare qm9 "$data" --out "$set" \
    --apply "sample=$((molecules + 2000)):1,radius=10,split=$molecules:1000:1000:1"
fi
"$ramet" graphs describe "$set"

settings=(--threads "$threads" --set "data.graphs.set=$set" --set "data.graphs.batch=count:32"
  --set model.graph.layers=3 --set model.graph.hidden=64 --set "train.epochs=${DEMO_EPOCHS:-12}"
  --set train.schedule.learning_rate=2e-3 --set train.schedule.warmup_steps=200
  --set train.evaluation.every=500 --set train.evaluation.batches=32)
say "What a training will take"
"$ramet" plan examples/schnet-qm9.toml "${settings[@]}"

answers=()
for seed in $(seq 1 "${DEMO_SEEDS:-3}"); do
  say "Training $seed"
  run=$work/run-$seed
  rm -rf "$run"
  "$ramet" train examples/schnet-qm9.toml "${settings[@]}" --set "train.seed=$seed" --run "$run"
  "$ramet" predict "$run" --threads "$threads" --set data.graphs.held_out=test --out "$work/gaps-$seed.npz"
  answers+=("$work/gaps-$seed.npz")
done

say "The picture"
"$python" scripts/draw_molecules.py "$set" "${answers[@]}" --out "$work/gaps.svg"
