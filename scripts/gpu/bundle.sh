#!/usr/bin/env bash
# Packs what a machine with a card needs to check the device `cuda`: the program, two programs of tests, their shared
# libraries, the examples and check.sh. That machine needs a driver, NVRTC, glibc and nothing else.
#
#   scripts/gpu/bundle.sh [BUILD [FILE]]     # build, BUILD/ramet-gpu.tar.gz
#   there: tar xzf ramet-gpu.tar.gz && ramet-gpu/check.sh
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build}
out=${2:-$build/ramet-gpu.tar.gz}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bundle=$folder/ramet-gpu
mkdir -p "$bundle/bin" "$bundle/lib"

for program in ramet tests/test_device tests/test_cuda; do
  if [ ! -x "$build/$program" ]; then
    echo "bundle.sh: $build/$program is not there; build it first" >&2
    exit 1
  fi
  strip -o "$bundle/bin/$(basename "$program")" "$build/$program"
done

# Benches, where they were built.
for program in bench/card_maps; do
  [ ! -x "$build/$program" ] || strip -o "$bundle/bin/$(basename "$program")" "$build/$program"
done

# The machine's own glibc and compiler libraries must serve: others beside its loader would not start.
own='/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s))\.so\.[0-9]+$'
for program in "$bundle"/bin/*; do ldd "$program"; done | awk '$3 ~ /^\// { print $3 }' | sort -u | grep -Ev "$own" |
  while read -r library; do
    cp -L "$library" "$bundle/lib/"
    strip --strip-unneeded "$bundle/lib/$(basename "$library")" 2>/dev/null || true
  done

cp -r "$root/examples" "$bundle/examples"
cp "$root/scripts/gpu/check.sh" "$root/scripts/gpu/layouts.sh" "$bundle/"
git -C "$root" rev-parse HEAD >"$bundle/revision" 2>/dev/null || true
tar -C "$folder" -czf "$out" ramet-gpu
echo "$out: $(du -m "$out" | cut -f1) MB"
