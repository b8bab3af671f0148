# make train    train the MLP on Fashion-MNIST       make test    lint, types, tests
# make docs     build the documentation site: open build/site/index.html; make docs-serve shows it as pages are edited
# make fuzz     500 new random programs; the same again: make fuzz SEED=N
# make test-minimum    the tests with the lowest versions of Python and packages that are allowed, in .venv-minimum
# make test-pytorch    agreement with PyTorch on its own samples, in .venv-pytorch; many minutes, and a large download
# All set up what they need in .venv, once; another interpreter: make train PYTHON=python3.13

VENV   := .venv
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
              $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
ARGS   :=
SEED   := $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
COUNT  := 500
# Processes that run the tests.
JOBS   := 2

# The version whose samples tests/pytorch/tables.py is about; its samples need expecttest, and an example the others.
PYTORCH := 'torch==2.13.*' expecttest transformers peft

# The oldest Python and dependencies that are allowed.
OLDEST := python3.11

.PHONY: train test docs docs-serve fuzz test-minimum test-pytorch lint types pytest clean

train: $(VENV)/.for-use
	$(BIN)/adjoint train fashion-mnist $(ARGS)

# Types are checked while the tests run. What mypy says then is among their lines, so after a failure it is said again.
test: lint
	$(MAKE) --keep-going --jobs=2 types pytest docs || { $(BIN)/mypy; exit 1; }

# Warnings, such as a link that leads nowhere, are errors. The variable turns off a notice of the theme about its successor.
docs docs-serve: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/.for-work
	$(BIN)/mkdocs build --quiet --strict
	@echo "The documentation is in build/site/index.html"

docs-serve: $(VENV)/.for-work
	$(BIN)/mkdocs serve --open

fuzz: $(VENV)/.for-work
	$(BIN)/pytest tests/testing/test_programs.py tests/testing/test_compiled_graphs.py --fuzz-seed $(SEED) --fuzz-count $(COUNT) $(ARGS)

lint: $(VENV)/.for-work
	$(BIN)/ruff check .

types: $(VENV)/.for-work
	$(BIN)/mypy

# The processes that tests start share bytecode, also where the environment says not to write any.
pytest: export PYTHONDONTWRITEBYTECODE :=
pytest: $(VENV)/.for-work
	$(BIN)/pytest -n $(JOBS) --dist worksteal --durations=10 $(ARGS)

test-minimum: $(VENV)-minimum/.for-work
	$(VENV)-minimum/$(notdir $(BIN))/pytest $(ARGS)

# Stamps: the environment is set up again only when what it is made from changes.
$(VENV)/.for-use: pyproject.toml $(VENV)/.made
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.for-work: pyproject.toml $(VENV)/.made
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[test,plot,docs]"
	touch $@ $(VENV)/.for-use

$(VENV)-minimum/.for-work: pyproject.toml constraints-minimum.txt
	$(OLDEST) -m venv --clear $(VENV)-minimum
	$(VENV)-minimum/$(notdir $(BIN))/pip install --quiet --disable-pip-version-check -c constraints-minimum.txt -e ".[test,plot]"
	touch $@

test-pytorch: $(VENV)-pytorch/.for-work
	$(VENV)-pytorch/$(notdir $(BIN))/pytest tests/pytorch tests/importers/torch_export $(ARGS)

$(VENV)-pytorch/.for-work: pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)-pytorch
	$(VENV)-pytorch/$(notdir $(BIN))/pip install --quiet --disable-pip-version-check -e ".[test]" $(PYTORCH)
	touch $@

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "adjoint needs Python 3.11 or newer, none is in PATH; install one or say make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-minimum $(VENV)-pytorch build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
