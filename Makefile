# make demo and make test set up everything they need in .venv; nothing else on the machine is touched.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint format benchmark audit fuzz docs figures notebook clean

.venv/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dqam needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	@echo 'Installing into .venv; this takes a minute or two.'
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[plot,serve]"
	touch $@

.venv/ready-test: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[test,lint]"
	touch $@

demo: .venv/ready            ## 20,000 trips through a made-up city, published and explained
	$(BIN)/dqam demo --output build/demo

test: .venv/ready-test
	$(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

lint: .venv/ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

benchmark: .venv/ready-test
	$(BIN)/python -m benchmarks

fuzz: .venv/ready-test       ## some thousand damaged inputs and releases
	DQAM_FUZZ=3000 $(BIN)/pytest -k "damaged or overlooked" tests

audit: .venv/ready
	mkdir -p build
	$(BIN)/dqam audit all --figure build/audit.png
	$(BIN)/dqam audit neighbours --pairs 5000

.venv/ready-docs: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

docs: .venv/ready-docs       ## guide and API reference, one searchable site: build/docs/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

figures: .venv/ready-docs    ## the import graph of docs/architecture.md, its numbers, and docs/modules.md
	$(BIN)/python docs/import_graph.py src docs/images/imports-after.svg docs/modules.md

notebook: .venv/ready-test   ## run docs/notebook.ipynb and save what it shows
	$(BIN)/jupyter execute --inplace docs/notebook.ipynb

clean:
	rm -rf .venv build dist
