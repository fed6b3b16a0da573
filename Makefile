# Two commands from a fresh clone: `make demo` and `make test`. They need Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PROJECTS := pyproject.toml reproduce/pyproject.toml constraints.txt
# The tests of the benchmark data take its folder from here; without it they are skipped.
export NEWNORMAL_DATA ?=

.DEFAULT_GOAL := help
.PHONY: help demo serve test soak check lint format types imports bench bench-fleet bench-service bench-prometheus bench-reading bench-report bench-first docs pictures report-shots service-shots site constraints clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: .venv/demo ## Install newnormal and run it on a generated plant: a table, its words, a page.
	@echo "==> running the demo on a generated plant"
	@$(BIN)/newnormal demo

serve: .venv/serve ## Install the service and run it with twenty simulated machines, on a page.
	@echo "==> starting the service; Ctrl-C stops it"
	@$(BIN)/newnormal serve --demo

test: .venv/dev ## Install the development tools and run the whole test suite.
	@echo "==> running the tests"
	@$(BIN)/python -m pytest -n auto --dist worksteal
	@echo "==> all tests passed; next: 'make check' for lint, types and imports, 'make bench' for speed"

soak: .venv/dev ## Go on with the long tests (MINUTES=30) and write docs/soak.md.
	@echo "==> running the long tests in full (two hours or so)"
	@$(BIN)/python -m tests.soak $(if $(MINUTES),--minutes $(MINUTES))

check: lint types imports ## Lint, format check, types, import direction.

lint: .venv/dev
	@echo "==> lint and format"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: .venv/dev ## Format the code.
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: .venv/dev
	@echo "==> types"
	@$(BIN)/mypy

imports: .venv/dev
	@echo "==> import direction"
	@$(BIN)/lint-imports

bench: .venv/bench ## Install PyTorch too, time newnormal beside it, and write docs/benchmarks.md.
	@$(BIN)/python -m benchmarks --size

bench-fleet: .venv/dev ## Time a fleet of thousands of streams, and write docs/benchmarks-fleet.md.
	@$(BIN)/python -m benchmarks.fleet

bench-service: .venv/dev ## Load the service with 1,000 live streams, and write docs/benchmarks-service.md.
	@$(BIN)/python -m benchmarks.service

bench-prometheus: .venv/dev ## Watch 500 hosts of a real Prometheus, and write docs/benchmarks-prometheus.md.
	@$(BIN)/python -m benchmarks.prometheus

bench-report: .venv/dev ## Time making and opening reports, and write docs/benchmarks-report.md.
	@$(BIN)/python -m benchmarks.reporting

bench-reading: .venv/dev ## Time reading alone beside an older commit, and write docs/benchmarks-reading.md.
	@$(BIN)/python -m benchmarks.reading

bench-first: .venv/dev ## Time the first commands after an install, and write docs/benchmarks-first.md.
	@$(BIN)/python -m benchmarks.first_fit

docs: .venv/dev ## Write the reference in docs/reference from the code, and the README's table.
	@$(BIN)/python docs/generate.py

pictures: .venv/dev ## Draw the pictures of docs/method.md anew.
	@$(BIN)/python docs/pictures.py

report-shots: .venv/dev ## Write the pictures of reports; needs Chromium and NEWNORMAL_DATA.
	@PYTHONPATH=. $(BIN)/python docs/pictures_of_reports.py

service-shots: .venv/dev ## Write the pictures of the service's page; needs Chromium.
	@PYTHONPATH=. $(BIN)/python docs/pictures_of_service.py

site: .venv/site ## Build the site from the pages, in site/: open site/index.html.
	@echo "==> building the site"
	@$(BIN)/python -m docs.site.stage build/site
	@$(BIN)/zensical build --clean --strict
	@echo "==> done; next: open site/index.html"

constraints: .venv/dev ## Write constraints.txt from what is installed.
	@(echo "# Exact versions for development, the demo and CI; made with \`make constraints\`."; \
	  $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu//'; echo "hatchling==1.33.0") \
	  | sort -f > constraints.txt

.venv/bin/python:
	@echo "==> making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "newnormal needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv .venv

.venv/demo: .venv/bin/python $(PROJECTS)
	@echo "==> installing newnormal, without any extra (a minute the first time)"
	@PIP_CONSTRAINT=constraints.txt $(PIP) -e .
	@touch $@

.venv/serve: .venv/bin/python $(PROJECTS)
	@echo "==> installing newnormal with the extra serve (a minute or two the first time)"
	@PIP_CONSTRAINT=constraints.txt $(PIP) -e '.[serve]'
	@touch $@

.venv/dev: .venv/bin/python $(PROJECTS)
	@echo "==> installing newnormal with the development tools (a minute or two the first time)"
	@PIP_CONSTRAINT=constraints.txt $(PIP) -e '.[dev]' -e reproduce
	@touch $@ .venv/demo .venv/serve

.venv/bench: .venv/dev
	@echo "==> installing PyTorch (CONTRIBUTING.md says how to get the smaller CPU build)"
	@PIP_CONSTRAINT=constraints.txt $(PIP) -e '.[dev,deep]' -e reproduce
	@touch $@

.venv/site: .venv/bin/python $(PROJECTS)
	@echo "==> installing what builds the site"
	@PIP_CONSTRAINT=constraints.txt $(PIP) -e '.[site]'
	@touch $@

clean: ## Remove .venv and everything built.
	rm -rf .venv .numba_cache dist build site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
