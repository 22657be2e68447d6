# make demo   align two graphs of the world, and say where the report is (makes .venv, installs what it needs)
# make test   the whole test suite           make lint   ruff and mypy
# make attacks  the long suite of attacks: kills, full disks, signals, corrupted and malicious files
# make bench  what an epoch and a kernel cost (needs DECENTRL_DATA)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test attacks lint bench clean

demo: $(VENV)/.run-installed
	rm -rf runs/demo
	$(BIN)/decentrl align --dataset world -o runs/demo

test: $(VENV)/.dev-installed
	$(BIN)/python -m pytest -n 2 --dist loadfile

attacks: $(VENV)/.dev-installed
	DECENTRL_ATTACKS=attacks.json $(BIN)/python -m pytest -n 2 --dist load -m attack tests/attacks

lint: $(VENV)/.dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev-installed
	$(BIN)/python benchmarks/kernel.py
	$(BIN)/python benchmarks/epoch.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run-installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[rdf]'
	touch $@

$(VENV)/.dev-installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist runs src/*.egg-info
