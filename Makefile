# make demo: from nothing to a trained model in one command; make demo_summaries: to summaries.
# make test: installs and runs the tests. make lint, make docs: checks style, builds the site.
# make speed: every figure of speed on this machine, on one page; make speed-guard: five of them.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
DATA ?= data/docstrings
RUN ?= runs/demo
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo demo_summaries install test test-slow test-oldest test-extras torture test-hub test-exporters lint docs speed speed-guard walkthrough clean

demo: $(VENV)/.installed
	$(BIN)/tfsoftmax prepare --corpus=docstrings --out=$(DATA)
	$(BIN)/tfsoftmax train --preset=demo --data=$(DATA) --run=$(RUN)
	$(BIN)/tfsoftmax generate --run=$(RUN) --prompt="returns the"
	@echo
	@echo "Next: $(BIN)/tfsoftmax evaluate --run=$(RUN) gives the exact perplexity,"
	@echo "$(BIN)/tfsoftmax train --help the other heads, and"
	@echo "$(BIN)/tfsoftmax advise --data=$(DATA) says which of them suits this vocabulary."

demo_summaries: $(VENV)/.installed
	$(BIN)/tfsoftmax prepare_pairs --batch_size=32 --max_source=40 --out=data/pairs
	$(BIN)/tfsoftmax train_pairs --data=data/pairs --run=runs/pairs --preset=demo \
		--max_steps=300
	echo "returns the number of items that the given list holds" | \
		$(BIN)/tfsoftmax summarise --run=runs/pairs

install: $(VENV)/.installed

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -m slow -n 2 --dist worksteal

# The same tests on the oldest versions that pyproject.toml allows.
test-oldest:
	PIP_CONSTRAINT=$(CURDIR)/.ci/oldest.txt $(MAKE) test VENV=.venv-oldest

# The files of tests that name an optional package (but keras_hub), slow ones too, with all of
# these packages and a browser, none of which may be missing.
test-extras:
	$(MAKE) .venv-extras/.installed-extras VENV=.venv-extras
	TFSOFTMAX_EXTRAS=1 .venv-extras/bin/python -m pytest -m "slow or not slow" -n 2 \
		--dist worksteal $$(grep -rlwE --include='test_*.py' --exclude-dir=exporters \
		'faiss|kenlm|gradio|torch|kaldiio|keras_rs|ranx|pyarrow|pocketsphinx|needs_tfds|importorskip.package.' tests)

# The tests with keras_hub, which `make test` skips, in an environment of their own.
test-hub:
	$(MAKE) .venv-hub/.installed-hub VENV=.venv-hub
	.venv-hub/bin/python -m pytest tests/test_hub.py

# Every head in SavedModel, LiteRT, ONNX Runtime and OpenVINO: over half an hour.
test-exporters:
	$(MAKE) .venv-exporters/.installed-exporters VENV=.venv-exporters
	.venv-exporters/bin/python -m pytest tests/exporters

# Wrong arguments, damaged files, tools that are killed or disturbed: about a quarter of an hour.
torture: $(VENV)/.installed-test
	$(BIN)/python -m tests.torture.run --out=experiments/results/torture

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict

walkthrough: $(VENV)/.installed-test
	$(BIN)/python -m experiments.framework.walkthrough docs/walkthrough.md

# On a quiet machine, about an hour on two cores; with PyTorch if `pip install torch` was run.
speed: $(VENV)/.installed-test
	$(BIN)/python -m experiments.benchmarks.run all --seconds=0.5

speed-guard: $(VENV)/.installed-test
	$(BIN)/python -m experiments.benchmarks.guard

PIP_INSTALL = $(PYTHON) -m venv $(VENV) && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check

$(VENV)/.installed: pyproject.toml
	$(PIP_INSTALL) -e .
	touch $@

$(VENV)/.installed-test: pyproject.toml
	$(PIP_INSTALL) -e .[test,tfds,plot,wer,subword]
	touch $@ $(VENV)/.installed

$(VENV)/.installed-extras: pyproject.toml .ci/extras.txt
	$(PIP_INSTALL) -e .[test,tfds,plot,wer,subword,demo,hf,index,arpa] -r .ci/extras.txt
	command -v chromium || $(BIN)/python -m playwright install chromium
	touch $@ $(VENV)/.installed

$(VENV)/.installed-hub: pyproject.toml
	$(PIP_INSTALL) -e .[test,hub]
	touch $@ $(VENV)/.installed

$(VENV)/.installed-exporters: pyproject.toml
	$(PIP_INSTALL) -e .[test,serving]
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml
	$(PIP_INSTALL) -e .[docs]
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .venv-oldest .venv-hub .venv-extras .venv-exporters data runs build dist site *.egg-info
