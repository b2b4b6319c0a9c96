#!/usr/bin/env bash
# Every comparison of bench/*.py, one after another, with the peers of scripts/setup.sh --peers; each says what it measured
# on what machine. bench/RESULTS.md holds results that were kept.
#
#   scripts/bench.sh [NAME ...]     bench/NAME.py alone
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=.venv/bin/python
if [ ! -x "$python" ]; then
  echo "bench: no peers to compare with; run scripts/setup.sh --peers first" >&2
  exit 1
fi
if [ $# -gt 0 ]; then names=("$@"); else mapfile -t names < <(find bench -maxdepth 1 -name '*.py' -printf '%f\n' | sed 's/\.py$//' | sort); fi
echo "machine: $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
failed=()
for name in "${names[@]}"; do
  printf '\n== bench/%s.py\n' "$name"
  "$python" "bench/$name.py" || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
  printf '\nbench: failed: %s\n' "${failed[*]}" >&2
  exit 1
fi
