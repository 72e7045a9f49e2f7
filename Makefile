# Every target sets up what it needs: a virtual environment in .venv, with the versions of constraints.txt.
#   make demo       train a ternary network, compile it, run it in two engines
#   make test       everything that a change must pass
#   make help       the others

VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
# The CPU build of torch: a tenth of the download. Not used where it cannot be reached, or with `make TORCH_INDEX=`.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
INSTALL := $(PIP) install --quiet --root-user-action ignore --constraint constraints.txt
# The newest Python that really starts; version managers leave names on PATH that do not.
PYTHON = $(shell for python in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then echo $$python; break; fi; done)

.PHONY: help demo test test-all properties lint format lit fuzz artefacts bench site clean
.DELETE_ON_ERROR:

help:
	@echo "make demo      train a ternary network, compile it, run it in two engines"
	@echo "make test      lint, types and tests: everything that a change must pass"
	@echo "make properties  the tests of hypothesis alone, with other random draws each time: SEED=n"
	@echo "make test-all  the same with the slow tests and many more generated programs"
	@echo "make lint      ruff and basedpyright alone"
	@echo "make format    let ruff rewrite the files"
	@echo "make lit       the files of tests/filecheck, each command in its own process"
	@echo "make fuzz      generated programs against other engines: TIME=seconds COUNT=n KIND=tri SEED=n JOBS=n"
	@echo "make artefacts tables everything compiled, or compares it with the table of BEFORE=FILE"
	@echo "make site      the pages and docstrings as a site, in build/site"
	@echo "make bench     the benchmarks of the compiler and of its kernels"
	@echo "make clean     remove the virtual environment and everything generated"

$(BIN)/python:
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
		echo "make: Python 3.11 or newer is needed, and none is on PATH" >&2; exit 1; \
	fi; \
	echo "Creating $(VENV) with $$($$python --version)"; \
	$$python -m venv $(VENV) || { \
		rm -rf $(VENV); \
		echo "make: no virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; }

# torch first and alone, so that nothing but torch is ever looked up in its index.
$(VENV)/.torch: constraints.txt | $(BIN)/python
	@echo "Installing PyTorch (some minutes the first time)"
	@index=""; \
	if [ -n "$(TORCH_INDEX)" ] && $(BIN)/python -c \
		"import urllib.request; urllib.request.urlopen('$(TORCH_INDEX)/torch/', timeout=5)" \
		>/dev/null 2>&1; then index="--extra-index-url $(TORCH_INDEX)"; fi; \
	$(INSTALL) $$index --no-deps torch
	@touch $@

$(VENV)/.demo: pyproject.toml constraints.txt $(VENV)/.torch
	@echo "Installing the compiler and what the demo needs"
	@$(INSTALL) --editable '.[torch,onnx,native,demo]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt $(VENV)/.torch
	@echo "Installing the compiler and what its tests need"
	@$(INSTALL) --editable '.[torch,onnx,tflite,native,language,neuromorphic,events,hub,secure,serve,privacy,distributed,operations,site,lsp,pictures,demo,dev]'
	@touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	@$(BIN)/python examples/digits.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --threads $(JOBS) --pythonpath $(BIN)/python

# Tests run side by side, so that the libraries below them get one thread each.
test properties test-all: export OMP_NUM_THREADS = 1
# Each process, of which tests start many, would compile the sources again.
test properties test-all: export PYTHONDONTWRITEBYTECODE =
# Machine code as users have it; the others compile most programs without LLVM's optimisations.
test-all: export TRITON_DSL_OPTIMIZE = 2

# Every test; hypothesis draws anew each time, as many examples as the draws that `pytest` alone repeats.
test: lint
	$(BIN)/python -m pytest -n $(JOBS) --hypothesis-profile fresh

properties: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) -m "hypothesis and not slow" --hypothesis-profile fresh \
		$(if $(SEED),--hypothesis-seed $(SEED)) $$(grep -rl --include='test_*.py' hypothesis tests)

test-all: lint
	$(BIN)/python -m pytest -n $(JOBS) -m "slow or not slow" --hypothesis-profile thorough

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lit: $(VENV)/.test
	$(BIN)/lit -v tests/filecheck

fuzz: $(VENV)/.test
	@PYTHONPATH=tests $(BIN)/python -m fuzz --jobs $(JOBS) $(if $(KIND),--kind $(KIND)) \
		$(if $(TIME),--time $(TIME)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED))

BEFORE ?= build/artefacts.json

# Where there is no table yet, this commit's is written.
artefacts: $(VENV)/.test
	@mkdir -p $(dir $(BEFORE)); if [ -e $(BEFORE) ]; then action=compare; else action=write; fi; \
		$(BIN)/python tests/artefacts.py $$action $(BEFORE) --jobs $(JOBS)

bench: $(VENV)/.test
	@for program in benchmarks/*.py; do echo "== $$program"; $(BIN)/python $$program || exit 1; done

site: $(VENV)/.test
	$(BIN)/python -m mkdocs build --strict

clean:
	rm -rf $(VENV) build dist out .lit .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
