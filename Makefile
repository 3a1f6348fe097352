# Everything one does with the repository; `make help` lists it. No activated environment is needed.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=

BIN := $(abspath $(VENV))/bin
# cython-lint looks for pycodestyle on PATH.
export PATH := $(BIN):$(PATH)

INSTALLED := $(VENV)/.installed
BENCH_INSTALLED := $(VENV)/.bench-installed
BUILT := $(VENV)/.built
CYTHON := *.pyx *.pxd replay/*.pxd signing/*.pyx
BUILD_CORE = $(BIN)/python setup.py -q build_ext --inplace
# Commit messages are checked from the first build on, unless git already has other hooks.
SET_HOOKS = if [ "$$(git rev-parse --is-inside-work-tree 2>/dev/null)" = true ] \
	&& [ -z "$$(git rev-parse --show-prefix)" ] && ! git config core.hooksPath >/dev/null; \
	then git config core.hooksPath .githooks; fi

.PHONY: build run test test-long clients compilers contracts check cover bench docs dist sanitize clean help

build: $(BUILT)  ## Make the virtual environment, install the package editable, compile in place.
	@$(SET_HOOKS)

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	CLOB_PURE_PYTHON=1 $(BIN)/pip install -q --disable-pip-version-check \
		-e '.[dev]' --config-settings editable_mode=compat
	touch $@

# pip hides what a build says; this one shows it.
$(BUILT): $(INSTALLED) setup.py $(wildcard $(addprefix clob/,$(CYTHON) *_py.py replay/*_py.py signing/*.h))
	suffix=$$($(BIN)/python -c \
		'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))'); \
		rm -f clob/*_c"$$suffix" clob/replay/*_c"$$suffix" clob/signing/*_c"$$suffix"
	$(BUILD_CORE)
	touch $@

run: build  ## Serve a demo on 127.0.0.1:8000: a market in which two bots trade.
	$(BIN)/python -m clob_server --demo

# A file stays whole on one processor: its tests share servers and nodes.
test: build  ## Run the tests and the examples of README and docs, on all processors.
	$(BIN)/pytest -n auto --dist loadfile $(PYTEST_ARGS)

clients:  ## Install the JavaScript clients that some tests run, from npm.
	npm install --prefix tests/clients/js --no-audit --no-fund --no-package-lock

compilers:  ## Install the compilers of the contracts from npm; a long test compares bytes with them.
	mkdir -p build/contracts
	cp clob_server/chain/contracts/package.json build/contracts
	npm install --prefix build/contracts --ignore-scripts --no-audit --no-fund --no-package-lock

contracts: compilers  ## Compile the contracts of the chain, and write what the package has of them.
	node clob_server/chain/contracts/build.mjs build/contracts

# A single long test may take minutes; only after an hour does it count as hung. In the order of the
# tree: by the number of tests, as they otherwise go, the longest would come last and alone.
test-long: build  ## Run the tests that take longer, on all processors.
	CLOB_LONG=1 $(BIN)/pytest -m long -n auto --dist loadfile --no-loadscope-reorder \
		-o faulthandler_timeout=3600 $(PYTEST_ARGS)

check: build  ## Check lint, format, types, import floors and unpushed commit messages.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/cython-lint $(wildcard $(addprefix clob/,$(CYTHON)))
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python --verifytypes clob --ignoreexternal
	$(BIN)/pyright --pythonpath $(BIN)/python --verifytypes clob_server --ignoreexternal
	$(BIN)/lint-imports --no-logo
	.githooks/check-commits

# The compiled Book is built twice: traced, and afterwards as it was. The report reads the traced C.
cover: build  ## Measure what the tests reach, in Python and in the .pyx.
	CLOB_TRACE=1 $(BUILD_CORE) --force
	status=0; \
		$(BIN)/coverage run $(BIN)/pytest $(PYTEST_ARGS) || status=$$?; \
		$(BIN)/coverage report || status=$$?; \
		$(BUILD_CORE) --force; exit $$status

$(BENCH_INSTALLED): $(INSTALLED)
	CLOB_PURE_PYTHON=1 $(BIN)/pip install -q --disable-pip-version-check \
		-e '.[bench]' --config-settings editable_mode=compat
	touch $@

# CLOB_REQUIRE_ALL: without pytest-benchmark the run fails instead of skipping the single calls.
bench: build $(BENCH_INSTALLED)  ## Run the benchmarks, then single calls under pytest-benchmark.
	$(BIN)/python -m benchmarks
	CLOB_REQUIRE_ALL=1 $(BIN)/pytest benchmarks/bench_calls.py

docs: build  ## Build the documentation into build/docs; a warning is an error.
	$(BIN)/sphinx-build -q -E -W --keep-going -n -b html docs build/docs

# The tests run in a folder without clob/, so that only the installed wheel can answer.
WHEEL_DIR := build/wheel
dist: build  ## Make sdist and wheel, and test the wheel in an environment of its own.
	rm -rf dist $(WHEEL_DIR)
	CLOB_REQUIRE_ALL=1 $(BIN)/python -m build
	$(BIN)/python -m venv $(WHEEL_DIR)/venv
	$(WHEEL_DIR)/venv/bin/pip install -q --disable-pip-version-check \
		"$$(echo dist/*.whl)[test]"
	cp -r pyproject.toml conftest.py README.md benchmarks docs tests $(WHEEL_DIR)
	cd $(WHEEL_DIR) && venv/bin/pytest README.md docs tests

# A copy of the package, compiled for the sanitizers, with the tests beside it.
# What a sanitizer says goes past Python, so pytest must not hold back the real stderr.
SANITIZE_DIR := build/sanitize
SANITIZE_TESTS ?= tests/differential tests/replay/strategy tests/signing
sanitize: build  ## Run what reaches the compiled parts under the address and undefined-behaviour sanitizers.
	rm -rf $(SANITIZE_DIR)
	CLOB_SANITIZE=1 CLOB_REQUIRE_ALL=1 $(BIN)/python setup.py -q \
		build --build-base build/sanitize-objects --build-lib $(SANITIZE_DIR)
	cp -r pyproject.toml conftest.py benchmarks tests $(SANITIZE_DIR)
	cd $(SANITIZE_DIR) && PYTHONMALLOC=malloc PYCRYPTODOME_DISABLE_DEEPBIND=1 \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so)" \
		$(BIN)/python -m pytest --capture=sys $(SANITIZE_TESTS) $(PYTEST_ARGS)

clean:  ## Remove what was built, the virtual environment included.
	rm -rf build dist site *.egg-info .coverage .hypothesis .mypy_cache .pytest_cache \
		.ruff_cache .import_linter_cache $(VENV)
	rm -f $(foreach each,. replay signing,clob/$(each)/*.c clob/$(each)/*.so)
	find . -name __pycache__ -prune -exec rm -rf {} +

help:  ## Say what there is.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' \
		| while IFS="$$(printf '\t')" read -r name text; do printf '%-10s %s\n' "$$name" "$$text"; done
