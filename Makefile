# Every target works from a fresh clone: it makes its own environment first.
#   make demo    transcribe the bundled recording with the bundled model, offline
#   make test    unit tests and goldens
#   make check   all that CI runs
#   make bench   benchmarks of this machine

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PARITY := .venv-parity
DEMO := src/whisper_hailo/assets/demo.flac
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := demo
.PHONY: demo test e2e parity check bench lock clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The locked dependencies come by hash; the project itself is installed editable on top of them.
$(VENV)/base.stamp: requirements/base.txt pyproject.toml | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) --require-hashes -r requirements/base.txt
	$(BIN)/python $(PIP_INSTALL) --no-deps -e .
	touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/base.stamp
	$(BIN)/python $(PIP_INSTALL) --require-hashes -r requirements/dev.txt
	touch $@

# torch is needed to compare with the reference implementations, never to run.
$(PARITY)/parity.stamp: requirements/parity.txt $(VENV)/dev.stamp
	$(PYTHON) -m venv $(PARITY)
	$(PARITY)/bin/python $(PIP_INSTALL) -r requirements/parity.txt
	$(PARITY)/bin/python $(PIP_INSTALL) --no-deps openai-whisper==20250625  # for its filters
	$(PARITY)/bin/python $(PIP_INSTALL) -r requirements/dev.txt
	$(PARITY)/bin/python $(PIP_INSTALL) --no-deps -e .
	touch $@

demo: $(VENV)/base.stamp
	@$(BIN)/whisper-hailo transcribe --model micro $(DEMO)

test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest

e2e: $(VENV)/dev.stamp
	$(BIN)/python -m pytest tests/e2e

parity: $(PARITY)/parity.stamp
	$(PARITY)/bin/python -m pytest tests/parity tests/unit/training

check: $(VENV)/dev.stamp $(PARITY)/parity.stamp
	scripts/check

bench: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/mel.py
	$(BIN)/python benchmarks/micro_wer.py

# Needs uv; writes versions and hashes for every supported Python.
lock:
	scripts/lock

clean:
	rm -rf $(VENV) $(PARITY) build dist .mypy_cache .pytest_cache .ruff_cache
