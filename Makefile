# make demo   align two graphs of the world; says where the report and the explorer are (makes .venv)
# make test   the whole test suite           make lint   ruff and mypy
# make attacks  the long suite of attacks: kills, full disks, signals, corrupted and malicious files
# make sssom  lets the tests read our SSSOM files with its reference implementation, too
# make docs   the documentation as a site, in build/site
# make package  the package as it would be published, checked
# make audit  known weaknesses of what CI installs, where their database can be reached
# make bench  what an epoch and a kernel cost (needs DECENTRL_DATA)
# HASHED=1    install only the wheels whose hashes are in requirements-ci.txt (Linux on x86-64), as CI does

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PIP := $(INSTALL) -c constraints.txt

.PHONY: demo test attacks lint sssom docs package audit bench clean

demo: $(VENV)/.run-installed
	rm -rf runs/demo
	$(BIN)/decentrl align --dataset world -o runs/demo
	@echo "explore  $(BIN)/decentrl serve runs/demo --write    then open http://127.0.0.1:8080/ (docs/explorer.md)"

test: $(VENV)/.dev-installed
	$(BIN)/python -m pytest -n 2 --dist loadfile

attacks: $(VENV)/.dev-installed
	DECENTRL_ATTACKS=attacks.json $(BIN)/python -m pytest -n 2 --dist load -m attack tests/attacks

lint: $(VENV)/.dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# In a place of its own, as it brings 90 packages that nothing else needs.
sssom: $(VENV)-sssom/.installed

$(VENV)-sssom/.installed: tools/sssom-requirements.txt
	$(PYTHON) -m venv $(VENV)-sssom
	$(VENV)-sssom/bin/python -m pip install --quiet --disable-pip-version-check -r tools/sssom-requirements.txt
	touch $@

# In a place of its own, which also sees what is in $(VENV): pages and notebooks use the package.
docs: $(VENV)/.dev-installed $(VENV)-docs/.installed
	NO_MKDOCS_2_WARNING=1 OMP_NUM_THREADS=1 $(VENV)-docs/bin/python -W ignore::DeprecationWarning -m mkdocs build --quiet --strict
	@echo "the site is in build/site: open build/site/index.html"

$(VENV)-docs/.installed: tools/docs-requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check -r tools/docs-requirements.txt
	echo "import site; site.addsitedir('$(CURDIR)/$(VENV)/lib/$$(ls $(VENV)/lib)/site-packages')" \
	> $$($(VENV)-docs/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/beside.pth
	touch $@

# In a place of its own, too. Nothing is uploaded.
package:
	$(PYTHON) -m venv $(VENV)-package
	$(VENV)-package/bin/python -m pip install --quiet --disable-pip-version-check build twine
	rm -rf dist
	$(VENV)-package/bin/python -m build --outdir dist . > build-package.log 2>&1 || { cat build-package.log; exit 1; }
	rm -f build-package.log
	$(VENV)-package/bin/twine check --strict dist/*

# With --strict, as pip-audit takes a package it cannot ask about for a good one. In a place of its own,
# as it brings other packages with it.
audit:
	$(PYTHON) -m venv $(VENV)-audit
	$(VENV)-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(VENV)-audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements-ci.txt || \
	{ echo "There are weaknesses, or the database was not reached and nothing is known: see above."; exit 1; }

bench: $(VENV)/.dev-installed
	$(BIN)/python benchmarks/kernel.py
	$(BIN)/python benchmarks/epoch.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run-installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -e '.[rdf,serve,text]'
	touch $@

$(VENV)/.dev-installed: pyproject.toml constraints.txt requirements-ci.txt | $(VENV)/bin/python
ifdef HASHED
	$(INSTALL) --require-hashes --only-binary :all: -r requirements-ci.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
else
	$(PIP) -e '.[dev]'
endif
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-audit $(VENV)-sssom $(VENV)-docs $(VENV)-package build dist runs src/*.egg-info
