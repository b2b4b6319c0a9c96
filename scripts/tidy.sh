#!/usr/bin/env bash
# clang-tidy over the library and the program; says nothing when it finds nothing. Needs BUILD/compile_commands.json.
#
#   scripts/tidy.sh BUILD JOBS [FILE ...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:?usage: scripts/tidy.sh BUILD JOBS [FILE ...]}
jobs=${2:?usage: scripts/tidy.sh BUILD JOBS [FILE ...]}
shift 2
if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(git ls-files 'src/*.cc'); fi
# GCC's flags that clang does not know are no finding.
printf '%s\0' "${files[@]}" | xargs -0 -P "$jobs" -n 4 clang-tidy-19 -p "$build" --quiet \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument 2> >(grep -v 'warnings generated' >&2 || true)
