"""Rescores n-best lists with a trained model and counts word errors.

    tfsoftmax rescore --run=runs/first --nbest=test.nbest --lm_weight=8 > test.hyp
    tfsoftmax rescore --run=runs/first --nbest=test.nbest --reference=test.ref \\
        --tune=valid.nbest --tune_reference=valid.ref --out=rescored

--nbest and --tune take n-best lists with the best hypothesis of each utterance first, as one of

    a file (plain or .gz) with lines `utterance acoustic lm word word ...`: natural logarithms of
        the scores of the recogniser and of its language model
    a directory that Kaldi's steps/rnnlmrescore.sh has made (join the files of several jobs):
        words_text with lines `utterance-RANK word ...`; optionally acwt, lmwt.lmonly and
        lmwt.nolm with lines `utterance-RANK cost`, of which the last, the graph costs, are added
        to the costs of each language model, as Kaldi does
    a directory in SRILM's nbest-format: a file (plain or .gz) for each utterance, named after it,
        with lines `acoustic lm nwords word ...` in logarithms to base 10; the formats
        NBestList1.0 and 2.0 cannot be read

If the lists hold Kaldi's ids instead of words, --words=words.txt has the words, in lines `word id`;
<eps>, <s> and </s> are left out. --lowercase turns the words of lists, references and --against
into lower case, and so those of the output. The share of the words that the vocabulary lacks goes
to standard error, with a warning above a fifth: all of them are scored as the same <unk>.

References have lines `utterance word word ...`, or, in files *.trn, `word word ... (utterance)`.

The score of a hypothesis in natural logarithms, where <eos> is part of each sentence, is

    acoustic + lm_weight * lm + old_lm_weight * old lm + arpa_weight * arpa - word_penalty * words

Here lm is the model of the run, which reads the words in pieces if it was trained on pieces, old lm
is the score in the lists, and arpa is an n-gram model (--arpa, which needs kenlm: pip install
'tfsoftmax[arpa]'). The acoustic scores have weight one; if they are not scaled, lm_weight is what
Kaldi calls LMWT. Without --tune each weight is one number, by default 1 for lm_weight and 0 for the
others. With --tune the command takes the weights with the fewest word errors on those lists, from
the values given, separated by commas, or from a grid where none are given.

With --state=sentence, the run's model scores each hypothesis by itself. With --state=carried it
reads all hypotheses as one text, in the order of the lists and separated by <eos>, and each begins
with the state that the one before it left, as in section 5.3.3.1 of Müller 2017. That takes longer,
as nothing is read side by side. --hypotheses=10 takes the first ten of an utterance. With
--strategy=mirrored, all devices of the machine share the hypotheses; with --workers=N, or in the
processes of a cluster (--strategy=multiworker), the processes do, with a device each, and the first
prints and writes. A carried state is not shared.

Standard output has a line `utterance word word ...` for each utterance, in the order of the lists.
With --reference, a table of word error rates follows on standard error, which needs jiwer (pip
install 'tfsoftmax[wer]'). It shows the first hypotheses, the rescored ones, and the best ones that
the lists contain (oracle), and the difference of the first two with its 95 % bootstrap interval,
paired over utterances. --against=other.hyp compares with the output of another system instead.
--out=DIR writes results.json, 1best.trn, and hyp.trn and ref.trn, which sclite compares: sclite
-r ref.trn trn -h hyp.trn trn -i spu_id.
"""

import dataclasses
import json
import math
import os
import sys

from absl import flags

from tfsoftmax.commands import shared_flags
from tfsoftmax.commands.program import check_at_least, printable
from tfsoftmax.textio import writing

BATCH = 128


def define_flags():
    shared_flags.define_run()
    flags.DEFINE_string("nbest", None, "N-best lists to rescore.", required=True)
    flags.DEFINE_string("reference", None, "References of the lists, to count word errors.")
    flags.DEFINE_string("tune", None, "Other n-best lists, on which the weights are tuned.")
    flags.DEFINE_string("tune_reference", None, "References of the lists of --tune.")
    flags.DEFINE_list("lm_weight", None, "Weight of the run's model; several to tune.")
    flags.DEFINE_list("old_lm_weight", None, "Weight of the scores in the lists; several to tune.")
    flags.DEFINE_list("arpa_weight", None, "Weight of the n-gram model; several to tune.")
    flags.DEFINE_list("word_penalty", None, "Penalty for each word; several to tune.")
    flags.DEFINE_string("words", None, "Kaldi's words.txt, for lists of ids instead of words.")
    flags.DEFINE_string("arpa", None, "N-gram model: an ARPA file, or one in kenlm's own format.")
    flags.DEFINE_string("against", None, "Output of another system to compare with.")
    flags.DEFINE_string("out", None, "Directory to write trn files and results.json to.")
    flags.DEFINE_enum(
        "state", "sentence", ["sentence", "carried"],
        "Whether the run's model reads each hypothesis by itself, or all as a stream.",
    )
    flags.DEFINE_integer(
        "hypotheses", None, "The most hypotheses of an utterance, the first ones. None: all."
    )
    flags.DEFINE_integer("seed", 1, "Seed of the bootstrap.")
    shared_flags.define_scoring()
    shared_flags.define_workers(of_streams=False)


def main():
    from tfsoftmax.nbest import lists as nbest
    from tfsoftmax.nbest import rescoring
    from tfsoftmax.nbest.word_errors import load_jiwer

    options = flags.FLAGS
    for name, needed in (("tune_reference", "tune"), ("tune", "tune_reference"),
                         ("arpa_weight", "arpa"), ("against", "reference")):
        if options[name].value and not options[needed].value:
            raise ValueError(f"`{needed}` must be given with `{name}`. Received: none")
    check_at_least(0, seed=options.seed)
    check_at_least(1, hypotheses=options.hypotheses)
    grid = values_of_weights()
    shared_flags.fork_workers()
    # Everything is checked before the model is loaded, so that mistakes show at once.
    if options.reference or options.tune:
        load_jiwer()
    symbols = nbest.read_symbols(options.words) if options.words else None
    lists = lists_of("nbest", symbols)
    references = references_of(lists, "reference")
    against = references_of(lists, "against")
    tuning = None
    if options.tune:
        tuning = lists_of("tune", symbols)
    check_old_lm(lists, grid, "nbest")
    if tuning is not None:
        check_old_lm(tuning, grid, "tune")
        tuning_errors = rescoring.hypothesis_errors(
            tuning, references_of(tuning, "tune_reference")
        )
    if options.out:
        os.makedirs(options.out, exist_ok=True)
    workers = shared_flags.started_workers()
    score = scores_function(workers)
    results = {"tuned_on": options.tune}
    if tuning is None:
        weights = rescoring.Weights(**{name: values[0] for name, values in grid.items()})
    else:
        weights, results["tuning_errors"] = rescoring.tune(
            tuning, score(tuning, "tune"), tuning_errors, grid
        )
    results.update(dataclasses.asdict(weights))
    chosen = rescoring.choose(lists, score(lists, "nbest"), weights)
    sentences = [lists.sentences[i] for i in chosen]
    shown = printable if sys.stdout.isatty() else str
    sys.stdout.write(shown(nbest.text(lists.utterances, sentences)))
    sys.stdout.flush()
    if references is not None:
        results.update(rescoring.compare(lists, references, chosen, against, options.seed))
        print(table(results), file=sys.stderr)
    print(", ".join(f"{k}={v}" for k, v in dataclasses.asdict(weights).items()), file=sys.stderr)
    if options.out and workers.first:
        write(options.out, lists, sentences, references, results)


def values_of_weights():
    """The values of each weight to try; one value each if there are no lists to tune on."""
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


def lists_of(argument, symbols):
    """The lists that a flag names, in the spelling of the model."""
    from tfsoftmax.nbest import lists as nbest
    from tfsoftmax.nbest import rescoring

    options = flags.FLAGS
    lists = nbest.read(options[argument].value).with_words(symbols, options.lowercase)
    if options.hypotheses is None:
        return lists
    return rescoring.first_hypotheses(lists, options.hypotheses)


def check_old_lm(lists, grid, argument):
    """Sets old_lm_weight to 0 for lists without such scores; another weight is an error."""
    if lists.old_lm is None:
        if flags.FLAGS["old_lm_weight"].value and any(grid["old_lm_weight"]):
            raise ValueError(
                f"`old_lm_weight` must be 0 for lists without scores of a language model. "
                f"Received: {argument}={flags.FLAGS[argument].value!r}"
            )
        grid["old_lm_weight"] = (0.0,)


def references_of(lists, argument):
    """The transcripts in the file that a flag names, in the order of the lists; None without it."""
    from tfsoftmax.nbest import lists as nbest

    path = flags.FLAGS[argument].value
    if not path:
        return None
    transcripts = nbest.read_transcripts(path, flags.FLAGS.lowercase)
    found = lists.expect(transcripts, argument)
    if len(transcripts) > len(found):
        print(
            f"{path}: {len(transcripts) - len(found):,} of {len(transcripts):,} utterances are "
            "not in the lists and do not count.",
            file=sys.stderr,
        )
    return found


def scores_function(workers):
    """Loads the models, and returns a function that makes the `rescoring.features` of lists.

    Its arguments are the lists and the flag that names them.
    """
    options = flags.FLAGS
    from tfsoftmax.lm import runs
    from tfsoftmax.lm.sentences import oov_report
    from tfsoftmax.lm.shared_scoring import SharedScorer, load
    from tfsoftmax.nbest import rescoring

    arpa_scores = rescoring.arpa_scorer(options.arpa) if options.arpa else None
    streams = 1 if options.state == "carried" else BATCH  # one text has one stream
    model, vocabulary, _ = load(workers, options.run, streams)
    scorer = SharedScorer(
        workers, model, vocabulary, options.normalisation, options.oov, options.unseen_words
    )

    tokenizer = runs.Run(options.run).tokenizer()

    def score(lists, argument):
        sentences = list(tokenizer.encode_all([" ".join(words) for words in lists.sentences]))
        words = sum(map(len, lists.sentences))
        oov = sum(int(scorer.unknown(sentence).sum()) for sentence in sentences)
        print(oov_report(options[argument].value, words, oov), file=sys.stderr, flush=True)
        lm = rescoring.lm_scores(scorer, sentences, options.state)
        return rescoring.features(lists, lm, arpa_scores and arpa_scores(lists.sentences))

    return score


def table(results):
    """What `rescoring.compare` returns, as a table."""
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
    """Writes the files of --out."""
    from tfsoftmax.nbest.lists import trn

    first = [lists.sentences[i] for i in lists.starts[:-1]]
    files = {"hyp.trn": sentences, "1best.trn": first}
    if references is not None:
        files["ref.trn"] = references
    for name, said in files.items():
        with writing(os.path.join(directory, name)) as file:
            file.write(trn(lists.utterances, said))
    with writing(os.path.join(directory, "results.json")) as file:
        file.write(json.dumps(results, indent=1) + "\n")
