"""Rescores n-best lists with a trained model and counts word errors.

    tfsoftmax rescore --run=runs/first --nbest=test.nbest --lm_weight=8 > hyp
    tfsoftmax rescore --run=runs/first --nbest=test.nbest --reference=test.ref \\
        --tune=valid.nbest --tune_reference=valid.ref --out=rescored

--nbest and --tune take n-best lists with the best hypothesis of each utterance first. The format is
detected; docs/speech.md has a command for each. Files may be compressed (.gz, .xz, .bz2).

    lines       a file with lines `utterance acoustic lm word word ...`: natural
                logarithms of the scores of the recogniser and of its language model
    JSON        a file with a JSON object in each line, with the keys utt_id (or utt, uttid, id,
                key, or audio_filepath), and nbest (or hyps, hypotheses, beams, output, input), a
                list of objects with text (or rec_text, hyp, hypothesis, sentence) and optionally
                am_score (or ac_score, acoustic_score, score, or Whisper's avg_logprob beside
                tokens) and lm_score (or ngram_lm_score); or a document *.json, such as ESPnet1's
                data.json. Other keys of a hypothesis with numbers are refused, unless --ignore_keys
                names them
    Kaldi       a folder with archives: words_text with entries `utterance-RANK word ...`, or words
                with ids; optionally acwt, lmwt.lmonly and lmwt.nolm with entries
                `utterance-RANK cost`, or lmwt.withlm, the sum of the last two. lmwt.nolm, the graph
                costs, is added to the costs of each language model, as in Kaldi. They are text or
                binary, and may end in .ark, .txt or .scp. Or one file *.ark or *.scp
    Moses       a file with lines `number ||| text ||| features ||| score`, of which the features
                are not read
    NeMo        with --beam_size=N, a file with lines `text<TAB>score`, N for each utterance; the
                utterances are called 0, 1, 2, ... Its manifests with beams are JSON
    ESPnet2     a folder with 1best_recog, 2best_recog ..., each with text and score
    SRILM       a folder with a file for each utterance, named after it, with lines
                `acoustic lm nwords word ...` in logarithms to base 10, or in NBestList1.0 or 2.0
    jobs        a folder of folders archives.1 to archives.8 (or output.1 ...) of Kaldi or ESPnet2,
                or of files nbest.1.gz to nbest.8.gz of lines, JSON or Moses
    -           lines or JSON on standard input

If the lists hold Kaldi's ids instead of words, --words=words.txt gives the words, in lines
`word id`; <eps>, <s> and </s> are left out. --lowercase converts the words of lists, references and
--against to lower case, so the output is in lower case, too. The share of words that the vocabulary
lacks is printed to standard error, with a warning above a fifth, because all of them are scored as
the same <unk>.

References have lines `utterance word word ...`, or, in files *.trn, `word word ... (utterance)`.
There they may have alternatives, `i { um / uh / @ } see`, which are read as in sclite: the
alternative with the fewest errors counts, and @ means no word.

Sentence markers of other programs, such as <s> and <sos/eos>, are left out at the beginning and end
of hypotheses and references, with a note; elsewhere they are an error. Words that begin with ▁ or
end in @@ are pieces of sentencepiece and of subword-nmt. They are an error, unless --join_pieces
joins them or --nojoin_pieces keeps them.

The score of a hypothesis in natural logarithms, where <eos> is part of each sentence, is

    acoustic + lm_weight * lm + old_lm_weight * old lm + arpa_weight * arpa
        - word_penalty * words

Here lm is the model of the run, which reads the words in pieces if it was trained on pieces, old lm
is the score in the lists, and arpa is an n-gram model (--arpa, which needs kenlm: pip install
kenlm). The acoustic scores have weight one; if they are not scaled, lm_weight is what
Kaldi calls LMWT. Without --tune each weight is one number, by default 1 for lm_weight and 0 for the
others. A score that the lists lack counts as 0. The command prints to standard error which scores
they have; the lists of --tune must have the same ones. With --tune the command chooses the weights
with the fewest word errors on those lists, from the given values, separated by commas, or from a
grid if none are given.

With --state=sentence, the run's model scores each hypothesis separately. With --state=carried it
reads all hypotheses as one text, in the order of the lists and separated by <eos>. Each hypothesis
starts from the state after the previous one, as in section 5.3.3.1 of Müller 2017. This takes
longer, because nothing is read in parallel. With --state=speaker it does so with the hypotheses of
each speaker, and reads the speakers in parallel. --utt2spk has lines `utterance speaker`; without
it, the part of an id before the first - or _ is the speaker. --hypotheses=10 uses the first ten
hypotheses of each utterance. With --strategy=mirrored, all devices of the machine share the
hypotheses. With --workers=N, or in a cluster (--strategy=multiworker), processes with one device
each share them, and the first process prints and writes. --state=carried cannot be shared.

Standard output has a line `utterance word word ...` for each utterance, in the order of the lists.
With --reference, a table of word error rates follows on standard error, for the first hypotheses,
the rescored ones, and the best ones that the lists contain (oracle). Below it is the difference
between the first two with its 95 % bootstrap interval, paired over utterances. --reference and
--tune need jiwer (pip install jiwer). --against=other.hyp compares with the output of another
system instead. --out=DIR writes results.json, 1best.trn, and hyp.trn and ref.trn, which sclite
compares: sclite -r ref.trn trn -h hyp.trn trn -i spu_id. It also writes the lists in their original
format, with the scores of the run's model instead of the old ones: to nbest, which is a file of
lines or a folder of Kaldi's archives or of SRILM's files with `acoustic lm nwords word ...`, or to
nbest.jsonl.
"""

import dataclasses
import json
import os
import sys

from tfsoftmax.commands import rescore_inputs
from tfsoftmax.commands.program import printable
from tfsoftmax.commands.rescore_inputs import Inputs, RescoreOptions
from tfsoftmax.commands.shared import Processes, Scoring, fork_workers, started_workers
from tfsoftmax.support.progress import bar
from tfsoftmax.support.textio import name_of
from tfsoftmax.support.whole_files import writing

BATCH = 128


def main(options: RescoreOptions, scoring: Scoring, shared: Processes):
    from tfsoftmax.nbest import rescoring, transcripts
    from tfsoftmax.nbest.word_errors import load_jiwer

    options.check_pipes(shared)
    inputs = Inputs(options, scoring.lowercase)
    grid = options.values_of_weights()
    # Everything is checked before the model is loaded, so that mistakes show at once.
    if options.reference or options.tune:
        load_jiwer()
    fork_workers(shared)
    inputs.symbols = transcripts.read_symbols(options.words) if options.words else None
    lists = inputs.lists_of("nbest")
    references = inputs.references_of(lists, "reference")
    against = inputs.references_of(lists, "against")
    tuning = None
    if options.tune:
        tuning = inputs.lists_of("tune")
        rescore_inputs.check_scores(lists, tuning, grid)
    inputs.check_old_lm(lists, grid, "nbest")
    if tuning is not None:
        inputs.check_old_lm(tuning, grid, "tune")
        tuning_errors = rescoring.hypothesis_errors(
            tuning, inputs.references_of(tuning, "tune_reference")
        )
    speakers = {
        name: inputs.speakers_of(each, name)
        for name, each in (("nbest", lists), ("tune", tuning)) if each is not None
    }
    if options.out:
        inputs.check_out(lists, references)
    arpa = rescoring.arpa_scorer(options.arpa) if options.arpa else None
    workers = started_workers(shared)
    score = scores_function(options, scoring, workers, speakers, arpa)
    results = {"tuned_on": options.tune}
    if tuning is None:
        weights = rescoring.Weights(**{name: values[0] for name, values in grid.items()})
    else:
        scores, _ = score(tuning, "tune")
        weights, results["tuning_errors"] = rescoring.tune(tuning, scores, tuning_errors, grid)
    results.update(dataclasses.asdict(weights))
    scores, lm = score(lists, "nbest")
    chosen = rescoring.choose(lists, scores, weights)
    sentences = [lists.sentences[i] for i in chosen]
    shown = printable if sys.stdout.isatty() else str
    sys.stdout.write(shown(transcripts.text(lists.utterances, sentences)))
    sys.stdout.flush()
    if references is not None:
        results.update(rescoring.compare(lists, references, chosen, against, options.seed))
    if not workers.first:
        return
    if references is not None:
        print(table(results), file=sys.stderr)
    print(", ".join(f"{k}={v}" for k, v in dataclasses.asdict(weights).items()), file=sys.stderr)
    if options.out:
        rescored = dataclasses.replace(lists, old_lm=lm)
        write(options.out, rescored, sentences, references, results)


def scores_function(options, scoring, workers, speakers, arpa):
    """Loads the models, and returns a function that makes the `rescoring.features` of lists.

    Its arguments are the lists and the flag that names them. It also returns the scores of the
    run's model by themselves.

    Args:
        options, scoring: the flags.
        workers: the `Workers`.
        speakers: dictionary from such a flag to the speaker of each hypothesis, or None.
        arpa: a function that scores sentences with an n-gram model, or None.
    """
    from tfsoftmax.lm.sentences import oov_report
    from tfsoftmax.nbest import rescoring
    from tfsoftmax.runs import runs
    from tfsoftmax.runs.shared_scoring import SharedScorer, load

    texts = {"carried": 1, "speaker": max(len(set(each or ())) for each in speakers.values())}
    streams = min(BATCH, texts.get(options.state, BATCH))
    model, vocabulary, _ = load(workers, options.run, streams)
    scorer = SharedScorer(
        workers, model, vocabulary, scoring.normalisation, scoring.oov, scoring.unseen_words
    )

    tokenizer = runs.Run(options.run).tokenizer()

    def score(lists, argument):
        sentences = list(tokenizer.encode_all([" ".join(words) for words in lists.sentences]))
        words = sum(map(len, lists.sentences))
        oov = sum(int(scorer.unknown(sentence).sum()) for sentence in sentences)
        name = name_of(getattr(options, argument))
        if workers.first:
            print(rescore_inputs.scores_report(lists, name), file=sys.stderr)
            print(oov_report(name, words, oov), file=sys.stderr, flush=True)
        with bar(name, len(sentences), "hypotheses", workers.first) as done:
            lm = rescoring.lm_scores(
                scorer, sentences, options.state, speakers[argument], done.update
            )
        return rescoring.features(lists, lm, arpa and arpa(lists.sentences)), lm

    return score


def table(results):
    """What `rescoring.compare` returns, as a table."""
    words = results["words"]
    lines = [f"{results['utterances']:,} utterances, {words:,} words",
             f"{'':9} {'WER':>8} {'sub':>8} {'del':>8} {'ins':>8}"]
    for name, counts in results["systems"].items():
        words = max(1, results["system_words"][name])  # none if all that was said is optional
        rates = [sum(counts.values()) / words, *(n / words for n in counts.values())]
        lines.append(f"{name:9} " + " ".join(f"{rate:>8.2%}" for rate in rates))
    lines.append(
        f"rescored - {results['compared_with']}: {100 * results['difference']:+.2f} points, 95 % "
        f"[{100 * results['low']:+.2f}, {100 * results['high']:+.2f}], lower in "
        f"{results['better']:.1%} of resamples (ties count half)"
    )
    return "\n".join(lines)


def write(directory, lists, sentences, references, results):
    """Writes the files of --out."""
    from tfsoftmax.nbest.transcripts import trn
    from tfsoftmax.nbest.writing import write as write_lists

    first = [lists.sentences[i] for i in lists.starts[:-1]]
    files = {"hyp.trn": sentences, "1best.trn": first}
    if references is not None:
        files["ref.trn"] = references
    for name, said in files.items():
        with writing(os.path.join(directory, name)) as file:
            file.write(trn(lists.utterances, said))
    with writing(os.path.join(directory, "results.json")) as file:
        file.write(json.dumps(results, indent=1) + "\n")
    write_lists(directory, lists)
