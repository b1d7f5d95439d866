"""Picks the best hypothesis of n-best lists with a trained model, and counts word errors.

    tfsoftmax rescore --run=runs/first --nbest=test.nbest --lm_weight=8 > test.hyp
    tfsoftmax rescore --run=runs/first --nbest=test.nbest --reference=test.ref \\
        --tune=valid.nbest --tune_reference=valid.ref --out=rescored

Lists (--nbest, --tune), each utterance's best hypothesis first:

    a file, plain or .gz, of lines        utterance acoustic lm word word ...
        with natural logarithms of the scores of the recogniser and of its language model
    a directory as Kaldi's steps/rnnlmrescore.sh makes it (join the files of several jobs):
        words_text, of lines utterance-RANK word ..., and, if there, acwt, lmwt.lmonly and
        lmwt.nolm, of lines utterance-RANK cost; the last, graph costs, are added to the costs
        of each language model, as Kaldi does
    a directory of SRILM's nbest-format, a file (plain or .gz) an utterance, named after it, of
        lines acoustic lm nwords word ..., logarithms to base 10; NBestList1.0 and 2.0 are not read

References: lines of utterance word word ..., or, in a file *.trn, of word word ... (utterance).

A hypothesis's score, in natural logarithms, <eos> being part of each sentence, is

    acoustic + lm_weight * lm + old_lm_weight * old lm + arpa_weight * arpa - word_penalty * words

where lm is the run's model, old lm the score in the lists, and arpa an n-gram model (--arpa, which
needs kenlm: pip install 'tfsoftmax[arpa]'). Acoustic scores have weight one, so that, where they
are not scaled, lm_weight is what Kaldi calls LMWT. Without --tune each weight is one number: 1 for
lm_weight, or else 0. With --tune those with the fewest word errors on its lists are taken, of the
values given, separated by commas, or of a grid for those that are not given.

Standard output: utterance word word ..., an utterance a line, in the order of the lists. With
--reference a table of word error rates follows on standard error (by jiwer: pip install
'tfsoftmax[wer]'): of the first hypotheses, the rescored ones, and the best there are (oracle);
and the difference of the first two with its 95 % bootstrap interval, paired over utterances. The
other system of the comparison may be any: --against=other.hyp, made by this tool or by another.
--out=DIR gets hyp.trn and ref.trn, for sclite -r ref.trn trn -h hyp.trn trn -i spu_id, 1best.trn,
and results.json.
"""

import dataclasses
import json
import math
import os
import sys

from absl import flags

from tfsoftmax.commands import dataclass_flags
from tfsoftmax.commands.program import load_tensorflow

BATCH = 128


def define_flags():
    flags.DEFINE_string("run", None, "directory of a training run", required=True)
    flags.DEFINE_string("nbest", None, "n-best lists", required=True)
    flags.DEFINE_string("reference", None, "what was said, to count errors")
    flags.DEFINE_string("tune", None, "other n-best lists, to choose the weights by")
    flags.DEFINE_string("tune_reference", None, "what was said in those")
    flags.DEFINE_list("lm_weight", None, "of the run's model")
    flags.DEFINE_list("old_lm_weight", None, "of the language model's scores in the lists")
    flags.DEFINE_list("arpa_weight", None, "of the n-gram model")
    flags.DEFINE_list("word_penalty", None, "taken off for each word")
    flags.DEFINE_string("arpa", None, "n-gram model, an ARPA file or kenlm's own format")
    flags.DEFINE_string("against", None, "another system's output, to compare with")
    flags.DEFINE_string("out", None, "directory for trn files and results.json")
    flags.DEFINE_integer("seed", 1, "of the bootstrap")
    dataclass_flags.define_scoring()


def main():
    from tfsoftmax.nbest import lists as nbest
    from tfsoftmax.nbest import rescoring

    options = flags.FLAGS
    for name, needed in (("tune_reference", "tune"), ("tune", "tune_reference"),
                         ("arpa_weight", "arpa"), ("against", "reference")):
        if options[name].value and not options[needed].value:
            raise ValueError(f"`{needed}` must be given with `{name}`. Received: none")
    grid = values_of_weights()
    lists = nbest.read(options.nbest)
    # Whatever is wrong is said before the model is loaded.
    references = references_of(lists, "reference")
    against = references_of(lists, "against")
    tuning = nbest.read(options.tune) if options.tune else None
    check_old_lm(lists, grid, "nbest")
    if tuning is not None:
        check_old_lm(tuning, grid, "tune")
        tuning_errors = rescoring.hypothesis_errors(
            tuning, references_of(tuning, "tune_reference")
        )
    score = scores_function()
    results = {"tuned_on": options.tune}
    if tuning is None:
        weights = rescoring.Weights(**{name: values[0] for name, values in grid.items()})
    else:
        weights, results["tuning_errors"] = rescoring.tune(
            tuning, score(tuning), tuning_errors, grid
        )
    results.update(dataclasses.asdict(weights))
    chosen = rescoring.choose(lists, score(lists), weights)
    sentences = [lists.sentences[i] for i in chosen]
    sys.stdout.write(nbest.text(lists.utterances, sentences))
    sys.stdout.flush()
    if references is not None:
        results.update(rescoring.compare(lists, references, chosen, against, options.seed))
        print(table(results), file=sys.stderr)
    print(", ".join(f"{k}={v}" for k, v in dataclasses.asdict(weights).items()), file=sys.stderr)
    if options.out:
        write(options.out, lists, sentences, references, results)


def values_of_weights():
    """{weight: values to try} from the flags, one value each unless there are lists to tune on."""
    from tfsoftmax.nbest.rescoring import GRID, Weights

    options, grid = flags.FLAGS, {}
    for name, default in dataclasses.asdict(Weights()).items():
        given = options[name].value
        try:
            grid[name] = tuple(float(value) for value in given or ())
        except ValueError:
            raise ValueError(f"`{name}` must be numbers. Received: {','.join(given)}") from None
        if not all(map(math.isfinite, grid[name])):
            raise ValueError(f"`{name}` must be finite. Received: {','.join(given)}")
        if given and len(given) > 1 and not options.tune:
            raise ValueError(
                f"`{name}` must be one number without --tune. Received: {','.join(given)}"
            )
        if not given:
            tried = options.tune and (name != "arpa_weight" or options.arpa)
            grid[name] = GRID[name] if tried else (default,)
    return grid


def check_old_lm(lists, grid, argument):
    """Lists without scores of their language model have one old_lm_weight, which is 0."""
    if lists.old_lm is None:
        if flags.FLAGS["old_lm_weight"].value and any(grid["old_lm_weight"]):
            raise ValueError(
                f"`old_lm_weight` must be 0 for lists without scores of a language model. "
                f"Received: {argument}={flags.FLAGS[argument].value!r}"
            )
        grid["old_lm_weight"] = (0.0,)


def references_of(lists, argument):
    """The transcripts in the file that a flag names, in the lists' order, or None."""
    from tfsoftmax.nbest import lists as nbest

    path = flags.FLAGS[argument].value
    if not path:
        return None
    transcripts = nbest.read_transcripts(path)
    found = lists.expect(transcripts, argument)
    if len(transcripts) > len(found):
        print(
            f"{path}: {len(transcripts) - len(found):,} of {len(transcripts):,} utterances are "
            "not in the lists; their words are not counted",
            file=sys.stderr,
        )
    return found


def scores_function():
    """A function from lists to `features`, which loads models when they are needed."""
    options = flags.FLAGS
    load_tensorflow()
    from tfsoftmax.nbest import rescoring
    from tfsoftmax.lm import runs
    from tfsoftmax.lm.scoring import Scorer

    arpa_scores = rescoring.arpa_scorer(options.arpa) if options.arpa else None
    model, vocabulary, _ = runs.load(options.run, BATCH)
    scorer = Scorer(model, vocabulary, options.normalisation, options.oov, options.unseen_words)

    def score(lists):
        lm = rescoring.lm_scores(scorer, lists.sentences)
        return rescoring.features(lists, lm, arpa_scores and arpa_scores(lists.sentences))

    return score


def table(results):
    """Lines for people of what `rescoring.compare` returns."""
    words = results["words"]
    lines = [f"{results['utterances']:,} utterances, {words:,} words",
             f"{'':9} {'WER':>8} {'sub':>8} {'del':>8} {'ins':>8}"]
    for name, counts in results["systems"].items():
        rates = [sum(counts.values()) / words, *(n / words for n in counts.values())]
        lines.append(f"{name:9} " + " ".join(f"{rate:>8.2%}" for rate in rates))
    lines.append(
        f"rescored - {results['compared_with']}: {100 * results['difference']:+.2f} points, 95 % "
        f"[{100 * results['low']:+.2f}, {100 * results['high']:+.2f}], lower in "
        f"{results['better']:.1%} of resamples"
    )
    return "\n".join(lines)


def write(directory, lists, sentences, references, results):
    """The files of --out."""
    from tfsoftmax.nbest.lists import trn

    os.makedirs(directory, exist_ok=True)
    first = [lists.sentences[i] for i in lists.starts[:-1]]
    files = {"hyp.trn": sentences, "1best.trn": first}
    if references is not None:
        files["ref.trn"] = references
    for name, said in files.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(trn(lists.utterances, said))
    with open(os.path.join(directory, "results.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(results, indent=1) + "\n")
