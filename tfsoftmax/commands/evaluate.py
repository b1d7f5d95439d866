"""Measures the exact perplexity of a trained model on a split.

    tfsoftmax evaluate --run=runs/first --split=test
    tfsoftmax evaluate --run=runs/nce --split=valid --normaliser
    tfsoftmax evaluate --run=runs/pairs --split=test --summaries=500

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

For a run on pairs, it also searches a summary of each of the first --summaries texts of the split,
as tfsoftmax summarise does, and adds ROUGE-1, ROUGE-2 and ROUGE-L in percent, with intervals of 95
%: rouge1_f1, as for Gigaword, and rouge1_recall_75, of the first 75 bytes, as for DUC-2004, with
--exact_words=30. They are those of the script ROUGE-1.5.5 with -m, and with -m -b 75. All
references of a text count, outside train also those of more words than tfsoftmax prepare
--max_target. The perplexity leaves these out: the result counts them as long_targets_left_out, and
the others as pairs.

Several devices share the streams, as in tfsoftmax train, and the result is that of one.
"""

import itertools
import json
import sys

from absl import flags

from tfsoftmax.commands import shared_flags
from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.corpora.config import TASKS
from tfsoftmax.support.arguments import check_at_least


def define_flags():
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
    flags.DEFINE_string(
        "tail_ngram", None, "N-gram model for the words outside the shortlist: an ARPA file, or "
        "one in KenLM's own format."
    )
    flags.DEFINE_integer(
        "summaries", 2000, "For pairs: number of texts to summarise for ROUGE; 0 for none."
    )
    shared_flags.define_search()
    shared_flags.define_workers()


def main():
    check_at_least(0, summaries=flags.FLAGS.summaries)
    search = shared_flags.search_options()
    shared_flags.fork_workers()
    load_tensorflow()
    from tfsoftmax.corpora.pipeline import rows_of_each
    from tfsoftmax.lm import runs
    from tfsoftmax.lm.evaluation import exact_evaluator, head_metrics
    from tfsoftmax.metrics import NatsByFrequency, Normaliser

    run = runs.Run(flags.FLAGS.run)
    task = run.check_task(TASKS)
    if task == "pairs":
        shared_flags.refuse("sentences only", "tail_ngram")
        if flags.FLAGS.summaries == 0:
            shared_flags.refuse("pairs with --summaries above 0 only", *shared_flags.SEARCH)
    else:
        shared_flags.refuse("pairs only", "summaries", *shared_flags.SEARCH)
    if flags.FLAGS.tail_ngram and flags.FLAGS.by_frequency:
        raise ValueError(
            "`by_frequency` must not be given with --tail_ngram, which changes the nats of rare "
            "words. Received: by_frequency=True"
        )
    corpus = shared_flags.corpus_of(run, (task,))
    corpus.split(flags.FLAGS.split)
    workers = shared_flags.started_workers(corpus.batch_size)
    rows = rows_of_each(corpus, workers.strategy)
    with workers.strategy.scope():
        model, _, loaded = runs.load(
            run.directory, rows, corpus.shape.get("time_steps"), workers=workers, tasks=TASKS
        )
        metrics = head_metrics(model) + ([Normaliser()] if flags.FLAGS.normaliser else [])
        metrics += [NatsByFrequency(corpus.vocabulary.counts)] if flags.FLAGS.by_frequency else []
    ngram = None
    if flags.FLAGS.tail_ngram:
        from tfsoftmax.lm.tail_ngram import evaluated_with_tail_ngram, tail_ngram_of

        ngram = tail_ngram_of(model, corpus.vocabulary, flags.FLAGS.tail_ngram)
    result = exact_evaluator(model, metrics)(corpus, flags.FLAGS.split, sys.stderr.isatty())
    if ngram is not None:
        result = evaluated_with_tail_ngram(result, model, corpus, flags.FLAGS.split, ngram)
    if task == "pairs":
        split = corpus.split(flags.FLAGS.split)
        left_out = split.pair_counts["long_targets"]
        result |= {"pairs": split.sentences, "long_targets_left_out": left_out}
    if task == "pairs" and workers.first:
        result |= rouge_of_summaries(run, corpus, search)
    print(json.dumps(result), flush=True)
    if not workers.first:
        return
    try:
        run.log(event="test", split=flags.FLAGS.split, step=loaded["progress"]["step"], **result)
    except OSError as error:
        print(f"warning: the result is only printed, not recorded: {error}", file=sys.stderr)


def rouge_of_summaries(run, corpus, search):
    """ROUGE of the summaries of the first texts of the split, and the bounds of its intervals."""
    from tqdm import tqdm

    from tfsoftmax.corpora.pair_texts import texts
    from tfsoftmax.lm import runs
    from tfsoftmax.seq2seq.rouge import DUC_BYTES, rouge
    from tfsoftmax.seq2seq.summaries import Summariser

    pairs = list(itertools.islice(texts(corpus, flags.FLAGS.split), flags.FLAGS.summaries))
    if not pairs:
        return {}
    model, vocabulary, config = runs.load(run.directory, None, tasks=("pairs",))
    summariser = Summariser(model, vocabulary, config["corpus"]["max_source"])
    sources = [source.split() for source, _ in pairs]
    found = tqdm(
        summariser.stream(sources, **search), total=len(pairs), desc="summaries", leave=False,
        disable=None,
    )
    summaries = [
        " ".join(best.copied(source)) for source, [best] in zip(sources, found, strict=True)
    ]
    references, result = [targets for _, targets in pairs], {"summaries": len(pairs)}
    for name, options in (
        ("f1", {"measure": "f1"}),
        (f"recall_{DUC_BYTES}", {"measure": "recall", "max_bytes": DUC_BYTES}),
    ):
        for kind, estimate in rouge(summaries, references, **options).items():
            result |= {
                f"{kind}_{name}": round(estimate.value, 3),
                f"{kind}_{name}_interval": [round(estimate.low, 3), round(estimate.high, 3)],
            }
    return result
