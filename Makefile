# Everything runs in .venv, made on first use from python3 and pip alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_STAMP := $(VENV)/.installed-for-demo
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-for-tests
# pip would spend half its time on compiling modules, most of them never loaded; Python compiles those that are.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint requirements.txt --editable
unexport PYTHONDONTWRITEBYTECODE
EXTRAS := demo,page,paper,interop,hmmlearn,gensim,tomotopy,parquet,texts,dask
COMPILED := $(VENV)/.compiled
OLDEST := .venv-minimum

.PHONY: help setup test check mutants minimum dist demo bench figures docs clean

help:
	@echo "make demo     the main job, start to end, in about a minute"
	@echo "make test     all tests"
	@echo "make check    lint, types and tests"
	@echo "make mutants  over 400 small random changes of the source: at least 90 % must make a test fail; ONLY=merging for one area"
	@echo "make minimum  all tests with the oldest versions that pyproject.toml allows"
	@echo "make dist     the wheel and the source archive, into dist"
	@echo "make bench    benchmarks against peers (long)"
	@echo "make figures  every figure of the paper, into out/figures"
	@echo "make docs     the documentation site, into site"

setup: $(STAMP)

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "decbayes needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Whoever tries the demo waits for nothing else.
$(DEMO_STAMP): pyproject.toml requirements.txt | $(BIN)/pip
	$(INSTALL) ".[demo]"
	@touch $@

$(STAMP): pyproject.toml requirements.txt | $(BIN)/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"  # the first that knows of --group
	$(INSTALL) ".[$(EXTRAS)]" --group dev
	@touch $(DEMO_STAMP) $@

# What nothing but tests needs: NumPyro brings JAX, hundreds of megabytes. StepMix needs a later scikit-learn than we do.
$(TEST_STAMP): $(STAMP)
	$(INSTALL) ".[numpyro,stepmix]"
	@touch $(TEST_STAMP)

# Kernels, modules and tests are compiled once, before several workers would each do so.
$(COMPILED): $(TEST_STAMP) $(wildcard src/decbayes/kernels/*.py)
	@$(BIN)/python -m decbayes warm-up & $(BIN)/python -m pytest --collect-only -p no:xdist > /dev/null; wait $$!
	@touch $(COMPILED)

# Four workers on two cores: two of them mostly wait for agents that talk to each other, and for a browser.
test: $(COMPILED)
	$(BIN)/python -m pytest -n 4 --dist loadgroup

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test

# The source stays as it is: changes are made in memory. Another sample: make mutants SEED=2
JOBS ?= 2
SEED ?= 1
SAMPLE ?= 440
mutants: $(TEST_STAMP)
	$(BIN)/python tests/mutants --jobs $(JOBS) --seed $(SEED) --sample $(SAMPLE) --only "$(ONLY)"

minimum: export NUMBA_CACHE_DIR = $(CURDIR)/$(OLDEST)/kernels
minimum: $(OLDEST)/.installed
	@$(OLDEST)/bin/python -m decbayes warm-up & $(OLDEST)/bin/python -m pytest --collect-only -p no:xdist > /dev/null; wait $$!
	$(OLDEST)/bin/python -m pytest -n 4 --dist loadgroup

# The oldest versions are of the time of Python 3.11; later ones have no packages of some.
$(OLDEST)/.installed: pyproject.toml .ci/lower_bounds.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "The oldest versions need Python 3.11; this is $$($(PYTHON) --version). Try: make PYTHON=python3.11 minimum"; exit 1; }
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python .ci/lower_bounds.py > $(OLDEST)/bounds.txt
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check --constraint $(OLDEST)/bounds.txt --editable ".[$(EXTRAS),numpyro]" --group dev
	@touch $@

dist: $(BIN)/pip
	$(BIN)/pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build --outdir dist

demo: $(DEMO_STAMP)
	$(BIN)/decbayes demo

bench: setup
	$(BIN)/python benchmarks/run_all.py

figures: setup
	$(BIN)/python -m paper all --out out/figures

docs: setup
	$(INSTALL) . --group docs
	$(BIN)/python docs/executed.py
	$(BIN)/python docs/commands.py
	$(BIN)/zensical build --clean --strict

clean:
	rm -rf $(VENV) $(OLDEST) dist site out
