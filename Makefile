# Every target sets up what it needs: a virtual environment in .venv with the versions of requirements.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: quickstart test test-fast lint docs bench soak clean

quickstart: $(VENV)/ready  ## compare the methods on data that comes with the package
	$(BIN)/entrofed quickstart

test: $(VENV)/ready  ## all tests and doctests
	$(BIN)/pytest -n 2 --dist loadgroup

test-fast: $(VENV)/ready  ## the tests that take no more than a moment each
	$(BIN)/pytest -n 2 --dist loadgroup -m "not slow"

lint: $(VENV)/ready  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/ready  ## the documentation site, in site/; nothing in it needs a network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/ready  ## our engine and our selection against what everyone writes
	$(BIN)/python benchmarks/local_training.py --compile
	$(BIN)/python benchmarks/greedy_selection.py
	$(BIN)/python benchmarks/gradient_table.py
	$(BIN)/python benchmarks/server_side.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/flower.py

soak: $(VENV)/ready  ## a campaign against docs/reliability.md: SOAK=10min SEED=0 make soak; counts go to soak.json
	$(BIN)/python -m tests.soak

$(VENV)/ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
