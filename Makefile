# The commands of the repository; `make help` lists them. No activated environment is needed.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
PROCESSORS := $(shell nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
# Many tests wait for servers, disks and blocks: for two fifths of the time, one process per processor
# leaves the processors idle.
WORKERS ?= $(shell expr $(PROCESSORS) \* 3 / 2 + 1)
# One process runs all tests of a file, which share servers and nodes. The files run in the order of
# conftest.py: ordered by their number of tests, the longest would run last and alone.
PYTEST = $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

BIN := $(abspath $(VENV))/bin
# cython-lint looks for pycodestyle on PATH.
export PATH := $(BIN):$(PATH)
# Packages are installed without bytecode, so the first import has to store it: without a cache
# each process compiles all that it imports, and a server takes twice as long to start.
unexport PYTHONDONTWRITEBYTECODE

# Each set of packages has a file that marks it as installed.
TOOLS := $(VENV)/.installed-tools
SERVER := $(VENV)/.installed-devchain,replay
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench
# A release of a package must not break a checkout that passed its tests.
CONSTRAINTS ?= deploy/constraints.txt
# Without compiling all packages to bytecode: Python compiles the modules that are imported.
PIP_INSTALL = $(BIN)/pip install -q --disable-pip-version-check --no-compile -c $(CONSTRAINTS)
COMPILE = $(BIN)/python setup.py -q build_ext --inplace
CYTHON = $(shell find clob -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi')
# Commit messages are checked from the first build on, unless git already has other hooks.
SET_HOOKS = if [ "$$(git rev-parse --is-inside-work-tree 2>/dev/null)" = true ] \
	&& [ -z "$$(git rev-parse --show-prefix)" ] && ! git config core.hooksPath >/dev/null; \
	then git config core.hooksPath .githooks; fi

.PHONY: build compile run test test-long test-cluster clients compilers nats contracts check \
	reference cover bench docs wheels sanitize instructions first-hour clean help

build: $(DEV) compile  ## Install the package and all development tools into .venv, and compile.
	@$(SET_HOOKS)

$(TOOLS): pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import tomllib; build = tomllib.load(open("pyproject.toml", "rb")); \
		print(*build["build-system"]["requires"], sep="\n")' > $@.txt
	$(PIP_INSTALL) -r $@.txt
	touch $@

# Editable, one extra of the package at a time; `compile` builds the modules, visibly.
$(VENV)/.installed-%: $(TOOLS)
	CLOB_PURE_PYTHON=1 $(PIP_INSTALL) --no-build-isolation \
		--config-settings editable_mode=compat -e '.[$*]'
	touch $@

$(BENCH): | $(DEV)

# Without changes this takes a second.
compile: $(TOOLS)
	$(COMPILE)

# Installing and compiling at the same time saves about a quarter of the first start.
run:  ## Serve a demo on 127.0.0.1:8000: a market in which two bots trade.
	@$(MAKE) --no-print-directory -j2 compile $(SERVER)
	@$(SET_HOOKS)
	$(BIN)/python -m clob_server --demo

test: build  ## Run the tests and the examples of README and docs, on all processors.
	$(PYTEST) $(PYTEST_ARGS)

clients:  ## Install the JavaScript clients that some tests use, from npm.
	npm install --prefix tests/clients/js --no-audit --no-fund --no-package-lock

compilers:  ## Install the contract compilers from npm, for `contracts` and one long test.
	mkdir -p build/contracts
	cp clob_server/chain/contracts/package.json build/contracts
	npm install --prefix build/contracts --ignore-scripts --no-audit --no-fund --no-package-lock

nats:  ## Put nats-server into build/nats, for tests of the replicated log: from PATH or Debian.
	deploy/fetch-nats build/nats

contracts: compilers  ## Compile the contracts and write their ABI and bytecode into the package.
	node clob_server/chain/contracts/build.mjs build/contracts

# A long test may take half an hour.
test-long: build  ## Run the long tests, on all processors.
	CLOB_LONG=1 $(PYTEST) -m long -o timeout=1800 -o faulthandler_timeout=3600 $(PYTEST_ARGS)

# Prints what it does: -s. 100 kills and 30 partitions take about twenty minutes.
test-cluster: build nats  ## Kill and separate processes of a cluster under load, and check everything.
	CLOB_CLUSTER_KILLS=$${CLOB_CLUSTER_KILLS:-100} \
		CLOB_CLUSTER_PARTITIONS=$${CLOB_CLUSTER_PARTITIONS:-30} \
		$(BIN)/pytest -m long -s -o timeout=7200 -o faulthandler_timeout=7500 \
		tests/server/cluster/test_faults.py $(PYTEST_ARGS)

check: build  ## Check lint, format, types, imports, generated texts and unpushed commit messages.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/cython-lint $(CYTHON)
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python --verifytypes clob --ignoreexternal
	$(BIN)/pyright --pythonpath $(BIN)/python --verifytypes clob_server --ignoreexternal
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.server.meta.generated --check
	.githooks/check-commits

# Coverage reads the traced .c files. Modules compiled from .py files are measured as plain Python.
cover: build  ## Measure test coverage of Python and Cython code.
	find clob -name '*.so' -delete
	CLOB_TRACE=1 $(COMPILE)
	status=0; \
		$(BIN)/coverage run $(BIN)/pytest $(PYTEST_ARGS) || status=$$?; \
		$(BIN)/coverage report || status=$$?; \
		$(COMPILE); exit $$status

# With CLOB_REQUIRE_ALL a missing pytest-benchmark is an error, not a skipped benchmark.
bench: build $(BENCH)  ## Run the benchmarks, then single calls under pytest-benchmark.
	$(BIN)/python -m benchmarks
	CLOB_REQUIRE_ALL=1 $(BIN)/pytest benchmarks/bench_calls.py

reference: build  ## Write tables and pages that are generated from the code.
	$(BIN)/python -m tests.server.meta.generated

docs: build  ## Build the documentation into build/docs; a warning is an error.
	$(BIN)/sphinx-build -q -E -W --keep-going -n -b html docs build/docs

# WHEELS_ARGS="--pythons python3.12 --no-pages --tests" builds one wheel, makes a first trade, no more.
wheels: $(TOOLS)  ## Build the sdist and a wheel per Python found, and prove each.
	$(BIN)/python -m tests.release.wheels $(WHEELS_ARGS)

first-hour: $(TOOLS)  ## Measure from a clone to trading and to a checked backtest.
	$(BIN)/python -m tests.release.clone

# Compiles a copy of the package and copies the tests next to it. Sanitizers write to the file
# descriptor of stderr, which pytest must not capture. A report ends the process, which fails its test.
SANITIZE_DIR := build/sanitize
SANITIZE_TESTS ?= tests/differential tests/replay/sim tests/replay/modes tests/signing
sanitize: build  ## Run tests of compiled code under the address and undefined-behaviour sanitizers.
	rm -rf $(SANITIZE_DIR)
	CLOB_SANITIZE=1 CLOB_REQUIRE_ALL=1 $(BIN)/python setup.py -q \
		build --build-base build/sanitize-objects --build-lib $(SANITIZE_DIR)
	cp -r pyproject.toml conftest.py benchmarks docs tests $(SANITIZE_DIR)
	cd $(SANITIZE_DIR) && PYTHONMALLOC=malloc PYCRYPTODOME_DISABLE_DEEPBIND=1 \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so)" \
		$(BIN)/python -m pytest --capture=sys -n $(PROCESSORS) --dist loadfile \
		--no-loadscope-reorder $(SANITIZE_TESTS) $(PYTEST_ARGS)

instructions: build  ## Count the instructions of fixed streams under valgrind; fails if they grow.
	$(BIN)/python -m benchmarks.instructions

clean:  ## Remove everything built, including the virtual environment.
	rm -rf build dist site *.egg-info .coverage .hypothesis .mypy_cache .pytest_cache \
		.ruff_cache .import_linter_cache $(VENV)
	find clob -name '*.c' -delete -o -name '*.so' -delete -o -name _built.json -delete
	find . -name __pycache__ -prune -exec rm -rf {} +

help:  ## List the commands.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' \
		| while IFS="$$(printf '\t')" read -r name text; do printf '%-10s %s\n' "$$name" "$$text"; done
