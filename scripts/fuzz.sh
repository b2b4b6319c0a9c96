#!/usr/bin/env bash
# Runs every libFuzzer program of a build folder for some seconds each, as many at once as there are processors.
# Keeps what it learnt in BUILD/corpus/NAME, so that the next run goes on from there; findings are in BUILD/findings.
#
#   scripts/fuzz.sh BUILD SECONDS [NAME ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:?usage: scripts/fuzz.sh BUILD SECONDS [NAME ...]}
seconds=${2:?usage: scripts/fuzz.sh BUILD SECONDS [NAME ...]}
shift 2

run_one() {
  local program=$1 seconds=$2 name build log status=0
  name=$(basename "$program")
  build=$(dirname "$(dirname "$program")")
  log=$build/findings/$name.log
  mkdir -p "$build/corpus/$name" "$build/findings"
  local options=(-max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len=65536 -print_final_stats=1
    -artifact_prefix="$build/findings/$name-")
  local dictionary=$build/corpus/${name#fuzz_}.dict
  # The program writes its seeds and its dictionary there when it starts.
  RAMET_FUZZ_SEED_FOLDER=$build/corpus/$name "$program" -runs=0 "$build/corpus/$name" >/dev/null 2>&1 || true
  if [ -s "$dictionary" ]; then options+=(-dict="$dictionary"); fi
  ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 "$program" "${options[@]}" "$build/corpus/$name" \
    >"$log" 2>&1 </dev/null || status=$?
  local runs
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
  if [ "$status" -eq 0 ]; then
    echo "ok    $name: ${runs:-0} inputs in $seconds s"
  else
    echo "FOUND $name: exit status $status after ${runs:-some} inputs; see $log and $build/findings/$name-*"
    tail -n 40 "$log" | sed 's/^/      /'
  fi
  return "$status"
}
export -f run_one

programs=()
if [ $# -gt 0 ]; then
  for name in "$@"; do programs+=("$build/fuzz/fuzz_$name"); done
else
  for program in "$build"/fuzz/fuzz_*; do if [ -x "$program" ]; then programs+=("$program"); fi; done
fi
if [ ${#programs[@]} -eq 0 ]; then
  echo "fuzz: no programs in $build/fuzz; make fuzz builds them" >&2
  exit 1
fi
echo "fuzz: ${#programs[@]} programs, $seconds s each"
printf '%s\0' "${programs[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'run_one "$1" "$2"' _ {} "$seconds"
echo "fuzz: nothing found"
