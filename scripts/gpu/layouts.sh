#!/usr/bin/env bash
# Whether BERT-mini and GPT-2-mini end with the same bits on every layout of a list, devices being threads of one process
# (on the device `cuda` they share one card). The last line says how many layouts agreed; the exit status is 0 where all
# did. Two devices of one class give the same hashes: compare the lines "one device" of hopper-host and cuda.
#
#   scripts/gpu/layouts.sh DEVICE [PROGRAM [EXAMPLES]]     # hopper-host or cuda; build/ramet; examples
#
# RAMET_JOBS (1) trainings run at a time.
set -u

device=${1:?DEVICE: hopper-host or cuda}
root=$(cd "$(dirname "$0")/../.." && pwd)
program=${2:-$root/build/ramet}
examples=${3:-$root/examples}
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT

layouts=("p=2" "p=4" "r=2" "r=4" "t=2" "t=4" "t=2x2" "t=2 sequence=true" "phases=2" "recompute=layer" "recompute=all"
  "p=2 schedule=gpipe" "p=2 schedule=zero-bubble" "r=2 rts=weights" "r=4 rts=weights,grads,optimizer" "p=2 r=2" "p=2 t=2" "t=2 r=2"
  "p=2 recompute=layer" "phases=2 offload=weights,optimizer,activations" "p=2 offload=activations" "r=2 rts=optimizer offload=optimizer"
  "p=2 t=2 r=2 rts=weights,grads,optimizer phases=2 recompute=layer offload=optimizer,activations")

# hash_of RECIPE [LAYOUT]: the hash of the weights after two steps, or what went wrong.
hash_of() {
  local output
  output=$("$program" train "$examples/$1.toml" --device "$device" --steps 2 --run-dir "$runs/$BASHPID" --set data.sequence_length=64 \
    --set train.micro_batch=2 --set train.accumulation=4 --set train.lanes=4 --set train.chunks=4 --set train.evaluation.batches=0 \
    ${2:+--layout "$2"} 2>&1) || { tail -3 <<<"$output"; return; }
  sed -n 's/^weights //p' <<<"$output"
}

# Each training writes what it found to a file of its own.
number=0
for recipe in bert-mini gpt2-mini; do
  for layout in "" "${layouts[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "${RAMET_JOBS:-1}" ]; do wait -n; done
    hash_of "$recipe" "$layout" >"$runs/found-$recipe-$number" &
    number=$((number + 1))
  done
  wait
  number=0
done

agreed=0 total=0
for recipe in bert-mini gpt2-mini; do
  one=$(cat "$runs/found-$recipe-0")
  echo "$device $recipe, one device: $one"
  for i in "${!layouts[@]}"; do
    found=$(cat "$runs/found-$recipe-$((i + 1))")
    total=$((total + 1))
    if [ -n "$one" ] && [ "$found" = "$one" ]; then
      agreed=$((agreed + 1))
    else
      echo "$device $recipe, ${layouts[$i]}: $found"
    fi
  done
done
echo "$device: $agreed of $total layouts have the bits of one device"
[ "$agreed" -eq "$total" ]
