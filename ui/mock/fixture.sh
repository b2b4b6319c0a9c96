#!/usr/bin/env bash
# Makes the runs that the page's browser tests look at, by training: small models, seconds each.
#
#   ui/mock/fixture.sh RAMET FOLDER
set -euo pipefail
ramet=$1 folder=$2
[ ! -e "$folder/.complete" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder"
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
small=(--set model.layers=4 --set model.hidden=64 --set model.intermediate=128 --set model.heads=2 --set model.vocabulary_size=500
  --set train.micro_batch=4 --set data.sequence_length=32 --set data.masking.max_predictions=5 --set train.accumulation=4 --set train.lanes=4)
train() { "$ramet" train examples/bert-mini.toml --json "${small[@]}" "$@" >/dev/null; }

train --run "$folder/2026-01-01-pipeline-aaaaa1" --steps 60 --layout p=2 --profile --check-numerics 20
train --run "$folder/2026-01-01-shards-aaaaa2" --steps 8 --layout "p=2 t=2" --profile --set train.chunks=2
train --run "$folder/2026-01-01-plain-aaaaa3" --steps 60
"$ramet" plan examples/bert-mini.toml --json "${small[@]}" --keep --run-dir "$folder" --layout p=2 >/dev/null
mv "$folder"/*-bert-mini-* "$folder/2026-01-01-planned-aaaaa4"
sed -i 's/"id": *"[^"]*"/"id":"2026-01-01-planned-aaaaa4"/' "$folder/2026-01-01-planned-aaaaa4/run.json"
i=0
for rate in 1e-4 5e-4 2e-3; do
  for seed in 0 1 2; do
    i=$((i + 1))
    train --run "$folder/2026-01-02-sweep-bbbbb$i" --steps 40 --set train.schedule.learning_rate=$rate --set train.seed=$seed
    printf '{"version":1,"group":"rates","tags":["sweep","rate-%s"]}\n' "$rate" >"$folder/2026-01-02-sweep-bbbbb$i/annotations.json"
  done
done
python3 ui/mock/media.py "$folder/2026-01-01-pipeline-aaaaa1"
touch "$folder/.complete"
