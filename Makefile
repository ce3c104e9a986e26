# Needs make and Python >= 3.11; everything else goes into .venv. Settings of pip (PIP_*, pip.conf) are honoured.
PYTHON ?= python3
ARGS ?=
QUIET ?= -qq
MAIN ?= main
export TORCH_INDEX ?=

VENV := .venv
SKLX := .venv-sklx
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
MEASURED := command compile decision dtw environment explore features flow ingestion interference_score interference_simulation lrasched_learning replay serve training what_if what_if_moves# the others draw curves of runs, or need data
IMPORTED := matplotlib.pyplot, polars, pyarrow, scipy.stats, sklearn.cluster, stable_baselines3, torch.utils.tensorboard
PIP_INSTALL := $(BIN)/python -m pip install $(QUIET) --no-compile --disable-pip-version-check -c constraints.txt

# Two workers and all commands share the compiled kernels (tvwrl/machine_code.py locks them): what one has compiled, others load.
WORKER = 2*popen//env:OMP_NUM_THREADS=1
PYTEST = $(BIN)/python -m pytest --dist loadfile --tx '$(WORKER)'

.PHONY: help install train test test-outside test-sklx wheel-test e2e check format lint types docs bench clean
.DEFAULT_GOAL := help
unexport PYTHONDONTWRITEBYTECODE

help: ## print this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-10s  %s\n", $$1, $$2 }' Makefile
	@echo
	@echo 'ARGS="..."          options of train, e2e, or of pytest (test, check)'
	@echo 'PYTHON=python3.12   the Python that install and wheel-test use; also QUIET= to see what pip does'
	@echo 'TORCH_INDEX=URL     where install and wheel-test also look for torch, such as an index of CPU builds'
	@echo 'MAIN=main           the branch or commit against which check finds what changed'

install: $(INSTALLED) ## create or update .venv with the package and its development extras

train: install ## train on the google trace and print the comparison table
	@$(BIN)/python scripts/train.py --trace google $(ARGS)

test: install ## run the tests, but for those of what surrounds the package
	@$(PYTEST) -m "not outside" $(ARGS)

test-outside: install ## test what surrounds the package: Ray, examples, notebooks, the site, large clusters
	@$(PYTEST) -m outside $(ARGS)

test-sklx: ## with numpy < 2, in an environment of its own: K-Medoids against scikit-learn-extra, and what tasks say there
	@test -x $(SKLX)/bin/pip || $(PYTHON) -m venv $(SKLX)
	@$(SKLX)/bin/python -m pip install $(QUIET) --no-compile --disable-pip-version-check -e '.[sklx]' pytest hypothesis
	@NUMBA_CACHE_DIR=$(CURDIR)/$(SKLX)/kernels $(SKLX)/bin/python -m pytest tests/ec/test_k_medoids.py tests/benchmark/test_frozen.py

wheel-test: install ## build the sdist and the wheel; train with the wheel in a new environment outside the checkout
	@rm -rf dist
	@$(BIN)/python -m build > /dev/null
	@PYTHON=$(PYTHON) .ci/try-wheel

e2e: install ## try tvwrl serve with a real Kubernetes, which is built at the first run (e2e/README.md)
	@$(BIN)/python -m e2e.run $(ARGS)

check: lint types ## what a commit has to pass: lint, types, and the tests of what changed that are not slow
	@$(PYTEST) -m "not slow" $$($(BIN)/python tests/changed.py $(MAIN)) $(ARGS)

format: install ## rewrite the code in the common format and fix what can be fixed safely
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix-only .

lint: install ## check format, code and spelling without changing anything
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/codespell

types: install ## check types with mypy
	@$(BIN)/mypy

docs: install ## build the site in docs/_build/html; a dead link or an undocumented public name is an error
	@$(BIN)/python -m sphinx -E -q -W --keep-going docs docs/_build/html
	@$(BIN)/python docs/sample_explorer.py docs/_build/html/explorer-sample.html
	@echo "The site is docs/_build/html/index.html"

bench: install ## measure speed (docs/results/speed.md)
	@set -e; for name in $(MEASURED); do echo "benchmarks/$$name.py"; $(BIN)/python "benchmarks/$$name.py"; done

clean: ## remove caches, compiled kernels and build leftovers; .venv and runs/ stay
	@rm -rf docs/_build docs/reference/api .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	@find . -name .git -prune -o -name '.venv*' -prune -o \
		\( -name __pycache__ -o -name '*.nbi' -o -name '*.nbc' \) -prune -exec rm -rf {} +

# torch goes first and alone: chosen together with the rest, its CUDA build and gigabytes of libraries come along even
# where a CPU build is at hand. Of two builds of a version pip takes the one with a suffix: 2.13.0+cpu before 2.13.0.
# Bytecode is made by importing what is used, which takes 20 s; all of it would take more than a minute.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python >= 3.11 is needed, but '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo missing)." \
		"Name another one: make install PYTHON=python3.12" >&2; exit 1; }
	@echo "Installing into $(VENV) (minutes the first time; QUIET= shows what pip does) ..."
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	@$(PIP_INSTALL) -e '.[dev]'
	@$(BIN)/python -c 'import $(IMPORTED)'
	@touch $@
