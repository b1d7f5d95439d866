"""Runs with random weights, of each kind of head, for the tests of `tfsoftmax demo`."""

import keras

from runs_helper import saved_run
from tfsoftmax import ModelConfig, Vocabulary, language_model
from tfsoftmax.runs.shown_run import load_runs

WORDS = ["the", "<unk>", "cat", "<script>", "sat", "<eos>", "mat", "on", "dog", "a"]
VOCABULARY = Vocabulary(WORDS, range(20, 10, -1))
HEADS = {
    "full": {},
    "adaptive": {"cutoffs": [3, 6]},
    "shortlist": {"shortlist": 4},
    "tree": {"tree": "huffman"},
    "class": {"num_classes": 3},
    "self_organised": {},
}


def shown_runs(folder):
    """Saves a run of each kind of head in a folder of its name; returns them by that name."""
    keras.utils.set_random_seed(1)  # some weights let no text of the tests end
    for head, options in HEADS.items():
        config = ModelConfig(head, options, embedding_units=6, hidden_units=6, init_scale=1.0)
        model = language_model(config, VOCABULARY, streams=2)
        saved_run(folder / head, config, VOCABULARY, model)
    return load_runs([str(folder / head) for head in HEADS])
