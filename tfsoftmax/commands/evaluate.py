"""Measures the exact perplexity of a trained model on a split.

    tfsoftmax evaluate --run=runs/first --split=test
    tfsoftmax evaluate --run=runs/nce --split=valid --normaliser

Every token counts once, and the perplexity is exact for every output layer. The last line is
JSON: perplexity, nats_per_token, tokens, oov_tokens, words_per_second. The command also appends
it to the metrics.jsonl of the run. With --normaliser, which doubles the computation, it adds the
mean and the variance of ln Z(h), which show how well a self-normalised head or NCE is normalised:
log_z_mean, log_z_variance, self_normalised_nats. For learned clusters it adds
cluster_perplexity and in_cluster_perplexity, whose product is the perplexity.

With --tail_ngram=FILE, the words outside the shortlist of --head=shortlist share the probability of
their node as an n-gram model of any order says, whose history is all the words before (pip install
'tfsoftmax[arpa]'). This takes about a microsecond for each of these words and each different
history.

Several devices share the streams, as in tfsoftmax train, and the result is that of one.
"""

import json
import sys

from absl import flags

from tfsoftmax.commands import shared_flags
from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.corpora.config import TASKS


def define_flags():
    shared_flags.define_run()
    flags.DEFINE_string("split", "test", "Split to evaluate on: train, valid or test.")
    flags.DEFINE_string(
        "data", None, "Directory of a corpus with the same vocabulary. By default the run's own."
    )
    flags.DEFINE_bool(
        "normaliser", False, "Also measure ln Z(h). For full, sampled, nce, negative and other "
        "heads with one score for each word."
    )
    flags.DEFINE_string(
        "tail_ngram", None, "N-gram model for the words outside the shortlist: an ARPA file, or "
        "one in KenLM's own format."
    )
    shared_flags.define_workers()


def main():
    shared_flags.fork_workers()
    load_tensorflow()
    from tfsoftmax.corpora.pipeline import rows_of_each
    from tfsoftmax.corpora.records import Corpus
    from tfsoftmax.lm import runs
    from tfsoftmax.lm.evaluation import exact_evaluator, head_metrics
    from tfsoftmax.metrics import Normaliser

    run = runs.Run(flags.FLAGS.run)
    recorded, words = run.config()["corpus"], run.vocabulary()
    task = run.check_task(TASKS)
    corpus = Corpus.load(flags.FLAGS.data or recorded.get("directory", ""), (task,))
    if corpus.vocabulary.sha256 != words.sha256:
        raise ValueError(
            f"`data` must have the vocabulary that the run was trained with, which has "
            f"{len(words):,} words. Received: {corpus.directory!r}, "
            f"with {len(corpus.vocabulary):,} words"
        )
    corpus.split(flags.FLAGS.split)
    workers = shared_flags.started_workers(corpus.batch_size)
    rows = rows_of_each(corpus, workers.strategy)
    with workers.strategy.scope():
        model, _, loaded = runs.load(
            run.directory, rows, corpus.shape.get("time_steps"), workers=workers, tasks=TASKS
        )
        metrics = head_metrics(model) + ([Normaliser()] if flags.FLAGS.normaliser else [])
    result = exact_evaluator(model, metrics)(corpus, flags.FLAGS.split, sys.stderr.isatty())
    if flags.FLAGS.tail_ngram:
        from tfsoftmax.lm.tail_ngram import evaluated_with_tail_ngram

        result = evaluated_with_tail_ngram(
            result, model, corpus, flags.FLAGS.split, flags.FLAGS.tail_ngram
        )
    print(json.dumps(result), flush=True)
    if not workers.first:
        return
    try:
        run.log(event="test", split=flags.FLAGS.split, step=loaded["progress"]["step"], **result)
    except OSError as error:
        print(f"warning: the result is only printed, not recorded: {error}", file=sys.stderr)
