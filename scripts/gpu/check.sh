#!/usr/bin/env bash
# On a machine with a card, in the unpacked bundle of bundle.sh: is the device `cuda` right there? Runs the tests of
# devices and of the card's kernels on the card, then trains two small models on the class's host form and on the card
# and compares the hashes of their weights. The last line is the summary; the exit status is 0 where all agreed.
#
#   check.sh [FOLDER]     # logs go there; default: out
set -u

here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/out}
mkdir -p "$out"
room=$(mktemp -d)  # runs, and code that was compiled
trap 'rm -rf "$room"' EXIT
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export XDG_CACHE_HOME=$room/cache
steps=${RAMET_CHECK_STEPS:-3}
summary=
failed=0

# note NAME WORD STATUS: adds to the summary.
note() {
  summary="$summary $1=$2"
  [ "$3" -eq 0 ] || failed=1
}

# tests NAME SECONDS PROGRAM...: a program of GoogleTest on the card.
tests() {
  local name=$1 seconds=$2 began=$SECONDS status passed bad
  shift 2
  RAMET_TEST_CARD=1 timeout "$seconds" "$@" --gtest_brief=1 >"$out/$name.log" 2>&1
  status=$?
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) .*/\1/p' "$out/$name.log" | tail -1)
  bad=$(grep -c '^\[  FAILED  \] .*(' "$out/$name.log")
  [ $status -eq 124 ] && bad="$bad(timeout)"
  [ $status -gt 124 ] && bad="$bad(status $status)"
  echo "== $name: ${passed:-0} passed, $bad failed, $((SECONDS - began)) s"
  grep -E '^\[  FAILED  \]|Failure$' "$out/$name.log" | sort | uniq | head -40
  note "$name" "${passed:-0}/$bad" "$status"
}

# hash_of RECIPE DEVICE: the hash of the weights after some steps.
hash_of() {
  local log=$out/$1-$2.log status
  RAMET_VERBOSE=dispatch timeout -s KILL 150 "$here/bin/ramet" train "$here/examples/$1.toml" --device "$2" \
    --steps "$steps" --run-dir "$room/runs" >"$log" 2>&1
  status=$?
  [ $status -eq 0 ] || { echo "status-$status"; return; }
  sed -n 's/^weights //p' "$log"
}

# What of a run on the card ran on the host, by op; and what does not fit into registers.
tell_kernels() {
  echo "   on the host:" $(sed -n 's/^ramet: dispatch \([a-z_0-9]*\) .*-> host:.*/\1/p' "$1" | sort | uniq -c |
    awk '{ printf "%s %s, ", $1, $2 }')
  grep '^ramet: cuda ' "$1" | grep -v ' 0 local bytes' | sed 's/^ramet: cuda/   local memory:/'
}

compare() {
  local recipe=$1 began=$SECONDS host card
  host=$(hash_of "$recipe" hopper-host)
  local between=$SECONDS
  card=$(hash_of "$recipe" cuda)
  echo "== $recipe after $steps steps: hopper-host $host ($((between - began)) s), cuda $card ($((SECONDS - between)) s)"
  tell_kernels "$out/$recipe-cuda.log"
  if [ -n "$host" ] && [ "$host" = "$card" ]; then
    note "$recipe" equal 0
    return
  fi
  grep -v '^ramet: \(dispatch\|cuda\) ' "$out/$recipe-cuda.log" | tail -5
  note "$recipe" "DIFFERS" 1
  # The card's kernels or the device? With the host's kernels behind the device, only the device is left.
  mv "$out/$recipe-cuda.log" "$out/$recipe-cuda-card.log"
  echo "   cuda with the host's kernels: $(RAMET_KERNELS=host hash_of "$recipe" cuda)"
}

if command -v nvidia-smi >/dev/null; then nvidia-smi --query-gpu=name,driver_version --format=csv,noheader; fi
tests conformance 120 "$here/bin/test_device" --gtest_filter='*cuda*'
# Not those of the fake card's failures, and of the true compiler without a card.
tests kernels 240 "$here/bin/test_cuda" --gtest_filter='-Failures.*:Resources.*'
compare bert-mini
compare gpt2-mini
echo "ramet-gpu $(cut -c1-12 "$here/revision" 2>/dev/null):$summary"
exit $failed
