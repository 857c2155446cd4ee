# Every target sets up what it needs in .venv: to run, the versions of requirements.txt; to develop, those of
# requirements-dev.txt besides.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/pytest -n 4 --dist loadgroup  # for two cores: some tests wait for the processes that they started

unexport PYTHONDONTWRITEBYTECODE  # where it is set, every process compiles torch anew: 2 s each

.PHONY: quickstart test test-fast lint docs bench soak clean

quickstart: $(VENV)/ready  ## compare the methods on data that comes with the package
	$(BIN)/entrofed quickstart

test: $(VENV)/ready-dev  ## all tests and doctests
	$(PYTEST)

test-fast: $(VENV)/ready-dev  ## the tests that take no more than a moment each
	$(PYTEST) -m "not slow"

lint: $(VENV)/ready-dev  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/ready-dev  ## the documentation site, in site/; nothing in it needs a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/ready-dev  ## our engine and our selection against what everyone writes
	$(BIN)/python benchmarks/compare.py --write docs/benchmarks.md
	$(BIN)/python benchmarks/local_training.py --compile
	$(BIN)/python benchmarks/stacked.py
	$(BIN)/python benchmarks/greedy_selection.py
	$(BIN)/python benchmarks/gradient_table.py
	$(BIN)/python benchmarks/server_side.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/flower.py

soak: $(VENV)/ready-dev  ## a campaign against docs/reliability.md: SOAK=10min SEED=0 make soak; counts go to soak.json
	$(BIN)/python -m tests.soak

$(VENV)/ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --no-compile --requirement requirements.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/ready-dev: $(VENV)/ready requirements-dev.txt
	$(PIP) --no-compile --requirement requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
