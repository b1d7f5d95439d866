# make demo: from nothing to a trained model in one command. make test: the tests.
# make benchmark: what every head costs on this machine, in ten minutes.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
DATA ?= data/docstrings
RUN ?= runs/demo
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo install test test-slow benchmark walkthrough clean

demo: $(VENV)/.installed
	$(BIN)/tfsoftmax prepare --corpus=docstrings --out=$(DATA)
	$(BIN)/tfsoftmax train --preset=demo --data=$(DATA) --run=$(RUN)
	$(BIN)/tfsoftmax generate --run=$(RUN) --prompt="returns the"

install: $(VENV)/.installed

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow

walkthrough: $(VENV)/.installed-test
	$(BIN)/python -m experiments.walkthrough README.md

benchmark: $(VENV)/.installed-test
	$(BIN)/python -m experiments.benchmarks.run heads --vocab_sizes=10000,44370 --seconds=1 \
		--results=runs/benchmark

$(VENV)/.installed: setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .[test,tfds,plot,wer]
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) data runs build *.egg-info
