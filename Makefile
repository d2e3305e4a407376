# Needs Python 3.11 or newer and nothing else; everything goes into .venv.
PYTHON  ?= python3
RECIPES ?= elman-tied lstm-tied attention-tied
BENCHES ?= $(wildcard benchmarks/*.py)

BIN      := .venv/bin
INSTALL  := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
REQUIRES := pyproject.toml constraints.txt
# A worker that is done takes from the other's end, so that both end together and files mostly stay with one.
# Bytecode is kept even where the environment says otherwise: a worker collects in 15 s with it and in 27 s without.
PYTEST   := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= PORISM_TESTS_WITHOUT="$(WITHOUT)" \
            $(BIN)/python -m pytest -n 2 --dist=worksteal $(if $(SEED),--seed=$(SEED))

.DEFAULT_GOAL := help
.PHONY: help run test test-all lint wheel first-hour bench clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

run: .venv/.installed ## train three language models on the embedded text, compare them, write a report
	$(BIN)/porism compare language $(RECIPES)

test: .venv/.installed-dev ## run the tests, shuffled, of sweeps a share: SEED=3 repeats, WITHOUT="numba" hides
	$(PYTEST)

test-all: .venv/.installed-dev ## the same with sweeps as a whole, 20,000 random calls, 34,000 damaged inputs; SHARE=0.5 half
	$(PYTEST) --whole $(if $(SHARE),--share=$(SHARE)) $(if $(MINUTES),--minutes=$(MINUTES))

lint: .venv/.installed-dev ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers=2

wheel: .venv/.installed-dev ## build the wheel into dist/
	rm -f dist/porism-*.whl
	$(BIN)/python -m build --wheel --no-isolation

first-hour: wheel ## the wheel in a new environment, then every line of the README, each timed: under 10 minutes
	$(BIN)/python tools/first_hour.py dist/porism-*.whl

bench: .venv/.installed-dev ## run every benchmark, or those in BENCHES="..."
	@set -e; for bench in $(BENCHES); do echo $$bench; $(BIN)/python $$bench; done

clean: ## remove .venv, build outputs and caches; runs/ stays
	rm -rf .venv dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo 'Porism needs Python 3.11 or newer, and "$(PYTHON)" is not: name another, for instance "make PYTHON=python3.12 run".' >&2; exit 1; }
	$(PYTHON) -m venv .venv

# Python compiles the files that it imports, and keeps them; pip would first compile all, for half of its time.
# torch first: what porism imports of it, seconds of compiling, is compiled on another core while pip goes on. The build
# backend is installed beside it, since pip would make an environment for that alone.
.venv/.installed: .venv/bin/python $(REQUIRES)
	$(INSTALL) --no-compile torch hatchling editables
	@{ PYTHONDONTWRITEBYTECODE= $(BIN)/python -W ignore -c 'import torch, sympy'; \
	$(BIN)/python -m compileall -q .venv/lib/python3*/site-packages/torch/_dynamo; } >/dev/null 2>&1 &
	$(INSTALL) --no-compile --no-build-isolation -e ".[report]"
	@touch $@
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c 'import matplotlib.figure' >/dev/null 2>&1 &

# The tests need all that a run needs, so this stamp counts for both.
.venv/.installed-dev: .venv/bin/python $(REQUIRES)
	$(INSTALL) -e ".[dev]"
	@touch .venv/.installed $@
