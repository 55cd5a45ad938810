# Everything here works on a fresh checkout that has Python 3.11 or newer, and make.
# `make` alone lists the targets.

PYTHON ?= python3
TEST_WORKERS ?= 2
# errors only; `make PIP_FLAGS= test` shows all that pip says
PIP_FLAGS ?= -qq

# Some machines forbid it; but many tests start processes, and each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# what the demo needs, and on top of it what developers need
DEMO := .venv/.demo
INSTALLED := .venv/.installed
# Python compiles what is used when it is first used; to compile everything takes longer than to install it
PIP_INSTALL := $(BIN)/python -m pip install $(PIP_FLAGS) --no-compile --disable-pip-version-check -c constraints.txt
# only where the user may install system packages, and not for ever where there is no network
GET_CHROMIUM := test "$$(id -u)" = 0 && timeout 300 apt-get -qq update > /dev/null 2>&1 \
  && timeout 300 apt-get -qq -y install --no-install-recommends chromium > /dev/null 2>&1
PUBLIC_TEXT := $(wildcard *.md CITATION.cff docs src tests examples benchmarks papers)

.DEFAULT_GOAL := help
.PHONY: help demo test rest test-all chromium check dist sbom lint types imports spelling docs wheel bench bench-fit compare-tables reproduce quality-quick quality clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO) ## install, compare methods on an embedded data set, train a model and write its report
	$(BIN)/eastward demo --out build/demo

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(TEST_WORKERS) --dist worksteal --durations=20

test: $(INSTALLED) ## run the quick tests and the examples in docstrings
	$(PYTEST) --quick

rest: $(INSTALLED) chromium ## run all other tests: slow ones, and further cases of the quick ones
	$(PYTEST) --rest

test-all: test rest ## run every test

# Tests of the report's page look at it in a browser, and are skipped without one.
chromium:
	@command -v chromium > /dev/null || { echo "Installing chromium, to test the report's page ..."; $(GET_CHROMIUM); } || \
	  echo "No chromium could be installed: tests in a browser are skipped (apt install chromium)."

dist: $(INSTALLED) ## build sdist and wheel, install the wheel in an empty environment and use it
	$(BIN)/python .ci/dist.py

check: lint types imports spelling docs wheel ## run every check below: style, types, imports, spelling, docs, wheel

lint: $(INSTALLED) ## check style and format (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED) ## check types (mypy)
	$(BIN)/python -m mypy

imports: $(INSTALLED) ## check that imports point one way (import-linter)
	$(BIN)/lint-imports

spelling: $(INSTALLED) ## check the spelling of public text and names (codespell)
	$(BIN)/codespell $(PUBLIC_TEXT)

# -E: read every page again, or a warning of an earlier build would not come back.
docs: $(INSTALLED) ## build the documentation into docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -q -E -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

wheel: $(INSTALLED) ## build sdist and wheel, and check size and contents of the wheel
	$(BIN)/python .ci/dist.py --no-install

bench: $(INSTALLED) ## measure the cost of the losses against cross-entropy
	$(BIN)/python -m benchmarks.speed.loss_cost

bench-fit: $(INSTALLED) ## measure speed and memory of fit, beside skorch and MLPClassifier
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.speed.fit_speed
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.speed.fit_memory

compare-tables: $(INSTALLED) ## run compare on every table of EASTWARD_DATA (half an hour; stop it, it goes on)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.quality.compare_tables --splits 2 --max-rows 400 --hidden 64 32 --max-epochs 30 --jobs 2

# In an environment of its own, so that the tool is no part of what it lists.
RELEASE_TOOLS := build/release_tools
sbom: $(INSTALLED) ## write a bill of materials of the release (CycloneDX) to dist/eastward.cdx.json
	@test -x $(RELEASE_TOOLS)/bin/cyclonedx-py || { $(PYTHON) -m venv $(RELEASE_TOOLS) && \
	  $(RELEASE_TOOLS)/bin/python -m pip install $(PIP_FLAGS) --disable-pip-version-check --upgrade pip && \
	  $(RELEASE_TOOLS)/bin/python -m pip install $(PIP_FLAGS) --disable-pip-version-check --group release; }
	@mkdir -p dist
	$(RELEASE_TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  -o dist/eastward.cdx.json $(BIN)/python
	$(BIN)/python .ci/sbom.py dist/eastward.cdx.json

# Stopped or not, finished cells are kept; EASTWARD_DATA names the folder of data sets.
NAME ?= $(shell $(BIN)/python -m papers list --json 2> /dev/null | $(BIN)/python -c \
  'import json, sys; print(*(row["name"] for row in json.load(sys.stdin)))')
SCALE ?= cpu
reproduce: $(INSTALLED) ## run a table or figure of the papers again: make reproduce NAME=btg-table4 (all: days)
	for name in $(NAME); do \
	  OMP_NUM_THREADS=1 $(BIN)/python -m papers run $$name --scale $(SCALE) || echo "$$name: not complete"; done

quality-quick: $(INSTALLED) ## compare methods on eight small tables of EASTWARD_DATA (minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.quality run --random-state 2 --max-rows 200 --plan core:1 key:1 \
	  --sets haberman ecoli3 ecoli glass pima vehicle1 contraceptive yeast5
	$(BIN)/python -m benchmarks.quality report --random-state 2 --max-rows 200 \
	  --results build/quality/quick --pictures build/quality/quick

quality: $(INSTALLED) ## run the quality benchmark on all tables of EASTWARD_DATA (hours; stop it, it goes on)
	OMP_NUM_THREADS=1 nice -n 19 $(BIN)/python -m benchmarks.quality run --max-rows 500
	$(BIN)/python -m benchmarks.quality report --max-rows 500

clean: ## remove caches and built documentation; .venv stays
	rm -rf docs/_build docs/_generated docs/auto_examples docs/sg_execution_times.rst
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find docs -name generated -type d -prune -exec rm -rf {} +
	find src tests docs examples benchmarks papers -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and pinned, so that nothing else can pull in another build of it. LightGBM is one voter of the demo's
# ensemble; the extra `boost` would bring XGBoost as well, which the demo does not use.
$(DEMO): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "eastward needs Python 3.11 or newer, and $(PYTHON) is older:" \
	       "try e.g. make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Installing into .venv (a minute or two, once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP_INSTALL) pip setuptools
	@echo "  torch ..."
	@$(PIP_INSTALL) torch
	@echo "  eastward ..."
	@$(PIP_INSTALL) --no-build-isolation --editable ".[tabular]" lightgbm
	@touch $@

$(INSTALLED): $(DEMO)
	@echo "Installing developer tools (once) ..."
	@$(PIP_INSTALL) --group dev
	@touch $@
