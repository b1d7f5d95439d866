"""Measures the exact perplexity of a trained model on a split.

    tfsoftmax evaluate --run=runs/first --split=test
    tfsoftmax evaluate --run=runs/nce --split=valid --normaliser

Every token counts once, and the perplexity is exact for every output layer. The last line is JSON:
perplexity, nats_per_token, tokens, oov_tokens, words_per_second; an infinite number is null. For a
corpus of pieces it adds word_perplexity, which counts words and ends of sentences. It adds
bits_per_byte if the tokens determine every byte of the text, which they do not if some are <unk>.
For a Transformer it adds the context, how many words before a token each layer attends to. The
command also appends the line to the metrics.jsonl of the run. With --normaliser, which doubles the
computation, it adds the mean and the variance of ln Z(h), which show how well a self-normalised
head or NCE is normalised: log_z_mean, log_z_variance, self_normalised_nats. For learned clusters it
adds cluster_perplexity and in_cluster_perplexity, whose product is the perplexity.

With --by_frequency, it adds the nats per token of the words by their number of occurrences in the
training split: nats_0 of those that do not occur, nats_1 of those that occur one to nine times,
nats_10 of those of ten to 99, and so on; tokens_0, tokens_1, ... are their shares of the tokens.
A group without words in the split has no nats.

For a run with --head=shortlist, --tail_ngram=FILE names an n-gram model of any order (pip install
kenlm). Given all previous words, it divides the probability of the words outside the shortlist
among them. This takes about a microsecond for each of these words and each distinct history.

Several devices share the streams, as in tfsoftmax train, and the result is the same as on one.
"""

import dataclasses
import sys
from collections.abc import Callable

from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.commands.shared import Devices, corpus_of, fork_workers, started_workers
from tfsoftmax.support.arguments import expect
from tfsoftmax.support.conditions import excludes
from tfsoftmax.support.textio import json_line


@dataclasses.dataclass(frozen=True)
class EvaluateOptions:
    """What is measured.

    Attributes:
        run: Directory of a training run.
        split: Split to evaluate on, such as train, valid or test.
        data: Directory of a corpus with the same vocabulary. By default the run's own.
        normaliser: Also measure ln Z(h). For full, sampled, nce, negative and other heads with one
            score for each word.
        by_frequency: Also measure the nats per token of words by their frequency.
    """

    run: str
    split: str = "test"
    data: str | None = None
    normaliser: bool = False
    by_frequency: bool = False


@dataclasses.dataclass(frozen=True)
class TailOptions:
    """Words outside a shortlist.

    Attributes:
        tail_ngram: N-gram model for the words outside the shortlist: an ARPA file, or one in
            KenLM's own format. It changes the nats of rare words.
    """

    NEEDS = {"tail_ngram": excludes("by_frequency")}

    tail_ngram: str | None = None


def main(options: EvaluateOptions, tail: TailOptions, devices: Devices):
    fork_workers(devices)
    load_tensorflow()
    from tfsoftmax.lm.tasks import LANGUAGE_MODEL

    def prepare(run, model, corpus, workers):
        """What the n-gram model makes of a result; it is read before the long work begins."""
        if not tail.tail_ngram:
            return lambda result: result
        from tfsoftmax.lm.tail_ngram import evaluated_with_tail_ngram, tail_ngram_of

        ngram = tail_ngram_of(model, corpus.vocabulary, tail.tail_ngram)
        return lambda result: evaluated_with_tail_ngram(result, model, corpus, options.split, ngram)

    evaluate(options, devices, LANGUAGE_MODEL, prepare)


def evaluate(options: EvaluateOptions, devices: Devices, task, prepare: Callable) -> None:
    """Evaluates a run, prints the result, and records it.

    Args:
        options: what is measured.
        devices: what shares the work.
        task: the `Task` of the run.
        prepare: called with the run, the model, the corpus and the `Workers` before the work;
            returns a function from the exact result to what is printed.
    """
    from tfsoftmax.corpora.pipeline import rows_of_each
    from tfsoftmax.lm.evaluation import exact_evaluator, head_metrics
    from tfsoftmax.metrics import NatsByFrequency, Normaliser
    from tfsoftmax.runs import runs

    run = runs.Run(options.run, task)
    run.check_task()
    corpus = corpus_of(run, options.data)
    corpus.split(options.split)
    workers = started_workers(devices, corpus.batch_size)
    rows = rows_of_each(corpus, workers.strategy)
    with workers.strategy.scope():
        model, _, loaded = runs.load(
            run.directory, rows, corpus.shape.get("time_steps"), workers=workers, task=task
        )
        head, (method, heads) = model.get_layer("head"), Normaliser.needs
        expect(not options.normaliser or hasattr(head, method), "normaliser",
               f"be given for {heads}", received=type(head).__name__)
        metrics = head_metrics(model) + ([Normaliser()] if options.normaliser else [])
        metrics += [NatsByFrequency(corpus.vocabulary.counts)] if options.by_frequency else []
    finish = prepare(run, model, corpus, workers)
    result = exact_evaluator(model, metrics)(corpus, options.split, sys.stderr.isatty())
    result = finish(result)
    print(json_line(result), flush=True)
    if not workers.first:
        return
    try:
        run.log(event="test", split=options.split, step=loaded["progress"]["step"], **result)
    except OSError as error:
        print(f"warning: the result is only printed, not recorded: {error}", file=sys.stderr)
