"""Exact perplexity of a trained model on a split: every token once, whatever it was trained with.

    tfsoftmax evaluate --run=runs/first --split=test
    tfsoftmax evaluate --run=runs/nce --split=valid --normaliser

The last line is JSON: perplexity, nats_per_token, tokens, oov_tokens, words_per_second. It is
also appended to the run's metrics.jsonl. With --normaliser, which computes everything twice,
also mean and variance of ln Z(h), by which a self-normalised head, or the Z of NCE, is judged:
log_z_mean, log_z_variance, self_normalised_nats.
"""

import json
import sys

from absl import flags

from tfsoftmax.commands.program import load_tensorflow


def define_flags():
    flags.DEFINE_string("run", None, "directory of a training run", required=True)
    flags.DEFINE_string("split", "test", "train, valid or test")
    flags.DEFINE_string("data", None, "corpus with the same vocabulary; default: the run's own")
    flags.DEFINE_bool("normaliser", False, "also measure ln Z(h): full, sampled, nce, negative, ...")


def main():
    load_tensorflow()
    from tfsoftmax.lm import runs
    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.lm.evaluation import exact_evaluator
    from tfsoftmax.metrics import Normaliser

    run = runs.Run(flags.FLAGS.run)
    recorded = run.config()["corpus"]
    corpus = Corpus.load(flags.FLAGS.data or recorded["directory"])
    if corpus.vocabulary.sha256 != recorded["vocabulary_sha256"]:
        raise ValueError(
            f"`data` must have the vocabulary that the run was trained with, of "
            f"{recorded['vocab_size']:,} words. Received: {corpus.directory!r}, "
            f"of {len(corpus.vocabulary):,} words"
        )
    corpus.split(flags.FLAGS.split)
    model, _, _ = runs.load(run.directory, corpus.streams, corpus.time_steps)
    metrics = [Normaliser()] if flags.FLAGS.normaliser else []
    result = exact_evaluator(model, metrics)(corpus, flags.FLAGS.split, sys.stderr.isatty())
    step = run.pointers().get("best") or run.pointers()["last"]
    run.log(event="test", split=flags.FLAGS.split, step=int(step.split("-")[1]), **result)
    print(json.dumps(result))
