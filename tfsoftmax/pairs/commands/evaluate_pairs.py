"""Measures the exact perplexity of a run on pairs, and its ROUGE.

    tfsoftmax evaluate_pairs --run=runs/pairs --split=test --summaries=500
    tfsoftmax evaluate_pairs --run=runs/news --split=duc2004 --exact_words=30

Every token of the targets counts once. The last line is JSON: perplexity, nats_per_token, tokens,
oov_tokens, words_per_second. The command also appends the line to the metrics.jsonl of the run.
With --normaliser and --by_frequency it adds what tfsoftmax evaluate adds.

It also summarises each of the first --summaries texts of the split, as tfsoftmax summarise does,
and adds ROUGE-1, ROUGE-2 and ROUGE-L in percent, with 95 % intervals: rouge1_f1, as for Gigaword,
and rouge1_recall_75, of the first 75 bytes, as for DUC-2004 with --exact_words=30. They equal those
of the script ROUGE-1.5.5 with -m, and with -m -b 75. All references of a text count; outside train
this includes those with more words than tfsoftmax prepare_pairs --max_target. The perplexity leaves
these out; the result counts them as long_targets_left_out, and the others as pairs.

Several devices share the pairs, as in tfsoftmax train_pairs, and the result is the same as on one.
"""

import dataclasses
import itertools

from tfsoftmax.commands.evaluate import EvaluateOptions, evaluate
from tfsoftmax.commands.program import load_tensorflow
from tfsoftmax.commands.shared import Devices, fork_workers
from tfsoftmax.pairs.commands.search import Search
from tfsoftmax.support.arguments import check_at_least
from tfsoftmax.support.conditions import needs_above
from tfsoftmax.support.progress import bar


@dataclasses.dataclass(frozen=True)
class EvaluatedSearch(Search):
    """Summaries for ROUGE.

    Attributes:
        summaries: Number of texts to summarise for ROUGE; 0 for none.
    """

    NEEDS = {
        "beam": needs_above("summaries", 0), "length_power": needs_above("summaries", 0),
        "max_words": (needs_above("summaries", 0), Search.NEEDS["max_words"]),
        "exact_words": needs_above("summaries", 0),
    }

    summaries: int = 2000


def main(options: EvaluateOptions, search: EvaluatedSearch, devices: Devices):
    check_at_least(0, summaries=search.summaries)
    fork_workers(devices)
    load_tensorflow()
    from tfsoftmax.pairs.task import PAIRS

    def prepare(run, model, corpus, workers):
        split = corpus.split(options.split)
        counts = {"pairs": split.sentences, "long_targets_left_out": split.long_targets}
        count = search.summaries if workers.first else 0
        return lambda result: {
            **result, **counts,
            **_rouge(run, corpus, options.split, count, search.arguments()),
        }

    evaluate(options, devices, PAIRS, prepare)


def _rouge(run, corpus, split, count, search):
    """ROUGE of the summaries of the first texts of the split, and the bounds of its intervals."""
    from tfsoftmax.pairs.rouge import DUC_BYTES, rouge
    from tfsoftmax.pairs.summaries import Summariser
    from tfsoftmax.pairs.texts import texts
    from tfsoftmax.runs import runs

    pairs = list(itertools.islice(texts(corpus, split), count))
    if not pairs:
        return {}
    model, vocabulary, config = runs.load(run.directory, None, task=run.task)
    summariser = Summariser(model, vocabulary, config["corpus"]["max_source"])
    sources = [source.split() for source, _ in pairs]
    summaries = []
    with bar("summaries", len(pairs), "texts") as done:
        for source, [best] in zip(sources, summariser.stream(sources, **search), strict=True):
            summaries.append(" ".join(best.copied(source)))
            done.update()
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
