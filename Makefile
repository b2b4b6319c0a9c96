# The commands of the project; each does all that it needs, on a fresh Debian 12 machine too.
SHELL := /bin/bash
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
SOAK_MINUTES ?= 30
SOAK_DRAWS ?= 500

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /make \1\t/' | expand -t 20

setup: ## install the Debian packages that a build needs
	@scripts/setup.sh

# $(call compile,PRESET[,TARGETS]): configures and builds what changed.
compile = cmake --preset $(1) --log-level=WARNING >/dev/null && cmake --build --preset $(1) -j $(JOBS) $(2)

build: setup ## build/ramet and all else
	$(call compile,release)

demo: setup ## BERT learns real English, before your eyes
	$(call compile,release,--target ramet_cli)
	scripts/demo.sh

sparse: setup ## what static and dynamic sparse models learn, beside a dense one: about two hours
	$(call compile,release,--target ramet_cli)
	python3 bench/sparse.py

demo-graphs: setup ## SchNet predicts orbital gaps of molecules, and draws them; needs QM9 (docs/graphs.md)
	$(call compile,release,--target ramet_cli)
	scripts/demo_graphs.sh

graphs: molecules ## published figures of networks on graphs, again; continues where it was interrupted; needs data
	scripts/graphs.py

test: setup ## every test
	$(call compile,release)
	scripts/run_tests.py --build build

test-peers: setup ## the Python package and its wheel; runs exchanged with MLflow, TensorBoard and W&B themselves
	scripts/setup.sh --peers --trackers --python --molecules
	scripts/wheel.sh
	cmake --preset release -DRAMET_PYTHON=ON --log-level=WARNING >/dev/null
	cmake --build --preset release -j $(JOBS) --target ramet_cli --target ramet_python_stub --target ramet_rdkit --target bench_torch_step
	.venv/bin/python scripts/run_tests.py --build build peers python wheel

molecules: setup ## what `ramet molecules` reads SMILES with (RDKit)
	scripts/setup.sh --molecules
	$(call compile,release,--target ramet_cli --target ramet_rdkit)

python: setup ## the Python package in build/python: PYTHONPATH=build/python .venv/bin/python -c "import ramet"
	scripts/setup.sh --python
	cmake --preset release -DRAMET_PYTHON=ON --log-level=WARNING >/dev/null
	cmake --build --preset release -j $(JOBS) --target ramet_python_stub

wheel: setup ## a wheel of the Python package, in dist/
	scripts/setup.sh --python
	scripts/wheel.sh

test-wheel: wheel ## that wheel in an empty environment, and beside PyTorch
	scripts/setup.sh --peers
	.venv/bin/python scripts/run_tests.py wheel

debug: setup ## every test, without optimisation
	$(call compile,debug)
	scripts/run_tests.py --build build-debug

core: setup ## the quick tests without oneDNN, ICU and MPI, without optimisation, with the standard library's checks
	$(call compile,core)
	scripts/run_tests.py --build build-core --no-scripts base ir ops transform machine layout program device runtime data weights model front track sim report

asan: setup ## every test under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call compile,asan)
	ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:$$ASAN_OPTIONS UBSAN_OPTIONS=print_stacktrace=1:$$UBSAN_OPTIONS \
	  scripts/run_tests.py --build build-asan --timeout 3600

tsan: setup ## every test under ThreadSanitizer
	$(call compile,tsan)
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:$$TSAN_OPTIONS \
	  scripts/run_tests.py --build build-tsan --timeout 3600

bench: setup ## speed and memory against PyTorch
	scripts/setup.sh --peers
	$(call compile,release)
	scripts/bench.sh

minilm: ## real pretrained weights to fine-tune, in models/all-MiniLM-L6-v2
	scripts/setup.sh --peers
	scripts/minilm.py

soak: setup ## SOAK_DRAWS (500) random models and layouts, faults, then train, kill and resume for SOAK_MINUTES (30): all compare bits
	$(call compile,release,--target ramet_cli test_soak)
	RAMET_SOAK_DRAWS=$(SOAK_DRAWS) RAMET_SOAK_SEED=$${RAMET_SOAK_SEED:-$$(date +%s)} build/tests/test_soak
	scripts/faults.py
	scripts/soak.py --minutes $(SOAK_MINUTES)

layouts: setup ## every layout of a list must end with the bits of one device
	$(call compile,release,--target ramet_cli)
	scripts/layouts.py

fuzz: ## every parser under libFuzzer for FUZZ_SECONDS (60) each
	scripts/setup.sh --clang
	$(call compile,fuzz)
	scripts/fuzz.sh build-fuzz $(FUZZ_SECONDS)

ui: ## the page of ramet serve: checks, unit tests, ui/dist (with a Node of its own)
	scripts/setup.sh --ui
	scripts/ui.sh

browser-tests: setup ## the page in a browser, on runs that are trained for it; screenshots in build/screenshots
	scripts/setup.sh --browser
	scripts/setup.sh --ui
	$(call compile,release,--target ramet_cli --target bench_catalogue)
	ui/mock/fixture.sh build/ramet build/fixture
	scripts/ui.sh --browser

format: ## clang-format over all C++ files
	@scripts/setup.sh --clang
	git ls-files -z --cached --others --exclude-standard '*.h' '*.cc' | xargs -0 clang-format-19 -i

lint: ## the rules of the tree, formatting and clang-tidy
	@scripts/setup.sh --clang
	scripts/lint.py
	git ls-files -z '*.h' '*.cc' | xargs -0 clang-format-19 --dry-run --Werror
	cmake --preset release --log-level=WARNING >/dev/null
	scripts/tidy.sh build $(JOBS)

clean: ## remove the build folders
	rm -rf dist ui/build ui/node_modules build build-debug build-core build-asan build-tsan build-fuzz build-pip build-wheel

.PHONY: help setup build demo demo-graphs graphs molecules sparse test test-peers python wheel test-wheel debug core asan tsan bench minilm soak layouts fuzz ui browser-tests format lint clean
