"""Measures the exact perplexity of a run on pairs, and its ROUGE.

    tfsoftmax evaluate_pairs --run=runs/pairs --split=test --summaries=500
    tfsoftmax evaluate_pairs --run=runs/gigaword --split=duc2004 --exact_words=30

Every token of the targets counts once. The last line is JSON: perplexity, nats_per_token, tokens,
oov_tokens, words_per_second. The command also appends the line to the metrics.jsonl of the run.
With --normaliser and --by_frequency it adds what tfsoftmax evaluate adds.

It also searches a summary of each of the first --summaries texts of the split, as tfsoftmax
summarise does, and adds ROUGE-1, ROUGE-2 and ROUGE-L in percent, with intervals of 95 %: rouge1_f1,
as for Gigaword, and rouge1_recall_75, of the first 75 bytes, as for DUC-2004, with
--exact_words=30. They are those of the script ROUGE-1.5.5 with -m, and with -m -b 75. All
references of a text count, outside train also those of more words than tfsoftmax prepare_pairs
--max_target. The perplexity leaves these out: the result counts them as long_targets_left_out, and
the others as pairs.

Several devices share the pairs, as in tfsoftmax train_pairs, and the result is that of one.
"""

import itertools

from absl import flags

from tfsoftmax.commands import evaluate, shared_flags
from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.pairs.commands import search_flags
from tfsoftmax.support.arguments import check_at_least


def define_flags():
    evaluate.define_evaluation()
    flags.DEFINE_integer(
        "summaries", 2000, "Number of texts to summarise for ROUGE; 0 for none."
    )
    search_flags.define_search()


def main():
    check_at_least(0, summaries=flags.FLAGS.summaries)
    search = search_flags.search_options()
    if flags.FLAGS.summaries == 0:
        search_flags.refuse_search("--summaries above 0")
    shared_flags.fork_workers()
    load_tensorflow()
    from tfsoftmax.pairs.task import PAIRS

    def prepare(run, model, corpus, workers):
        return lambda result: {
            **result, **_counts(corpus), **(_rouge(run, corpus, search) if workers.first else {})
        }

    evaluate.evaluate(PAIRS, prepare)


def _counts(corpus):
    split = corpus.split(flags.FLAGS.split)
    return {"pairs": split.sentences, "long_targets_left_out": split.long_targets}


def _rouge(run, corpus, search):
    """ROUGE of the summaries of the first texts of the split, and the bounds of its intervals."""
    from tqdm import tqdm

    from tfsoftmax.lm import runs
    from tfsoftmax.pairs.rouge import DUC_BYTES, rouge
    from tfsoftmax.pairs.summaries import Summariser
    from tfsoftmax.pairs.texts import texts

    pairs = list(itertools.islice(texts(corpus, flags.FLAGS.split), flags.FLAGS.summaries))
    if not pairs:
        return {}
    model, vocabulary, config = runs.load(run.directory, None, task=run.task)
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
