#!/usr/bin/env bash
# Builds a wheel of the Python package in dist/, for this Python and for Linux with this glibc or a later one. Libraries
# that such systems may lack are in the wheel, with their licences.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=.venv/bin/python
glibc=$(ldd --version | sed -n '1s/.* \([0-9]*\)\.\([0-9]*\)$/\1_\2/p')
platform=manylinux_${glibc}_$(uname -m)
most_bytes=30000000

rm -rf build-wheel/wheels
mkdir -p build-wheel/wheels dist
"$python" -m pip wheel . --quiet --no-deps --no-build-isolation --disable-pip-version-check --wheel-dir build-wheel/wheels \
  -C build-dir=build-wheel -C cmake.define.RAMET_WHEEL=ON -C cmake.define.Python_EXECUTABLE="$(realpath -s "$python")"
rm -f dist/ramet-*.whl
# auditwheel copies the libraries in under names of their own, and refuses a platform that the wheel does not fit. It
# finds the libicudata of python/icu_data.cc and the libgnutls of python/no_tls.cc before the system's.
if ! LD_LIBRARY_PATH="$PWD/build-wheel/python" PATH="$PWD/.venv/bin:$PATH" "$python" -m auditwheel repair --strip \
  --plat "$platform" --wheel-dir dist build-wheel/wheels/*.whl >build-wheel/auditwheel.log 2>&1; then
  cat build-wheel/auditwheel.log >&2
  exit 1
fi
wheel=$(echo dist/ramet-*.whl)
bytes=$(stat -c %s "$wheel")
echo "$wheel: $((bytes / 1000000)) MB"
if [ "$bytes" -gt "$most_bytes" ]; then
  echo "wheel: more than $((most_bytes / 1000000)) MB" >&2
  exit 1
fi
