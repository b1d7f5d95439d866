"""Measures the exact perplexity of a trained model on a split.

    tfsoftmax evaluate --run=runs/first --split=test
    tfsoftmax evaluate --run=runs/nce --split=valid --normaliser

Every token counts once, and the perplexity is exact for every output layer. The last line is
JSON: perplexity, nats_per_token, tokens, oov_tokens, words_per_second. For a corpus of pieces it
adds word_perplexity, where words and ends of sentences count. bits_per_byte is there if the tokens
determine every byte of the text, so not where some are <unk>. A Transformer adds the context, how
many words before a token each layer attends to. The command also appends the line to the
metrics.jsonl of the run. With --normaliser, which doubles the computation, it adds the
mean and the variance of ln Z(h), which show how well a self-normalised head or NCE is normalised:
log_z_mean, log_z_variance, self_normalised_nats. For learned clusters it adds
cluster_perplexity and in_cluster_perplexity, whose product is the perplexity.

With --by_frequency, it adds the nats per token of the words by their number of occurrences in the
training split: nats_0 of those that do not occur, nats_1 of those that occur one to nine times,
nats_10 of those of ten to 99, and so on; tokens_0, tokens_1, ... are their shares of the tokens.
Nats of words of which the split has none are left out.

With --tail_ngram=FILE, the words outside the shortlist of --head=shortlist share the probability of
their node as an n-gram model of any order says, whose history is all the words before (pip install
'tfsoftmax[arpa]'). This takes about a microsecond for each of these words and each different
history.

Several devices share the streams, as in tfsoftmax train, and the result is that of one.
"""

import json
import sys
from collections.abc import Callable

from absl import flags

from tfsoftmax.commands import shared_flags
from tfsoftmax.commands.program import load_tensorflow


def define_flags():
    define_evaluation()
    flags.DEFINE_string(
        "tail_ngram", None, "N-gram model for the words outside the shortlist: an ARPA file, or "
        "one in KenLM's own format."
    )


def main():
    if flags.FLAGS.tail_ngram and flags.FLAGS.by_frequency:
        raise ValueError(
            "`by_frequency` must not be given with --tail_ngram, which changes the nats of rare "
            "words. Received: by_frequency=True"
        )
    shared_flags.fork_workers()
    load_tensorflow()
    from tfsoftmax.lm.tasks import LANGUAGE_MODEL

    evaluate(LANGUAGE_MODEL, _prepare_tail_ngram)


def _prepare_tail_ngram(run, model, corpus, workers):
    """What --tail_ngram makes of a result; it is read before the long work begins."""
    if not flags.FLAGS.tail_ngram:
        return lambda result: result
    from tfsoftmax.lm.tail_ngram import evaluated_with_tail_ngram, tail_ngram_of

    split = flags.FLAGS.split
    ngram = tail_ngram_of(model, corpus.vocabulary, flags.FLAGS.tail_ngram)
    return lambda result: evaluated_with_tail_ngram(result, model, corpus, split, ngram)


def define_evaluation() -> None:
    """Defines the flags of commands that evaluate."""
    shared_flags.define_run()
    flags.DEFINE_string("split", "test", "Split to evaluate on, such as train, valid or test.")
    flags.DEFINE_string(
        "data", None, "Directory of a corpus with the same vocabulary. By default the run's own."
    )
    flags.DEFINE_bool(
        "normaliser", False, "Also measure ln Z(h). For full, sampled, nce, negative and other "
        "heads with one score for each word."
    )
    flags.DEFINE_bool(
        "by_frequency", False, "Also measure the nats per token of words by their frequency."
    )
    shared_flags.define_workers()


def evaluate(task, prepare: Callable) -> None:
    """Evaluates what the flags of `define_evaluation` say, prints the result, and records it.

    Args:
        task: the `Task` of the run.
        prepare: called with the run, the model, the corpus and the `Workers` before the work;
            returns a function from the exact result to what is printed.
    """
    from tfsoftmax.corpora.pipeline import rows_of_each
    from tfsoftmax.lm import runs
    from tfsoftmax.lm.evaluation import exact_evaluator, head_metrics
    from tfsoftmax.metrics import NatsByFrequency, Normaliser

    run = runs.Run(flags.FLAGS.run, task)
    run.check_task()
    corpus = shared_flags.corpus_of(run)
    corpus.split(flags.FLAGS.split)
    workers = shared_flags.started_workers(corpus.batch_size)
    rows = rows_of_each(corpus, workers.strategy)
    with workers.strategy.scope():
        model, _, loaded = runs.load(
            run.directory, rows, corpus.shape.get("time_steps"), workers=workers, task=task
        )
        metrics = head_metrics(model) + ([Normaliser()] if flags.FLAGS.normaliser else [])
        metrics += [NatsByFrequency(corpus.vocabulary.counts)] if flags.FLAGS.by_frequency else []
    finish = prepare(run, model, corpus, workers)
    result = exact_evaluator(model, metrics)(corpus, flags.FLAGS.split, sys.stderr.isatty())
    result = finish(result)
    print(json.dumps(result), flush=True)
    if not workers.first:
        return
    try:
        run.log(event="test", split=flags.FLAGS.split, step=loaded["progress"]["step"], **result)
    except OSError as error:
        print(f"warning: the result is only printed, not recorded: {error}", file=sys.stderr)
