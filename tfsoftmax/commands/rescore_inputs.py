"""What `tfsoftmax rescore` reads from its flags before it loads a model, and the checks of it."""

import dataclasses
import math
import os
import sys

from tfsoftmax.commands.program import check_empty
from tfsoftmax.support.arguments import check_at_least, expect, refusal
from tfsoftmax.support.conditions import needs
from tfsoftmax.support.textio import STANDARD_INPUT, is_read_once, name_of
from tfsoftmax.support.whole_files import check_writable

FILES = ("nbest", "tune", "reference", "tune_reference", "against", "words", "utt2spk")


@dataclasses.dataclass(frozen=True)
class RescoreOptions:
    """Run, lists and weights.

    Attributes:
        run: Directory of a training run.
        nbest: N-best lists to rescore.
        reference: References of the lists, to count word errors.
        tune: Other n-best lists, on which the weights are tuned.
        tune_reference: References of the lists of --tune.
        lm_weight: Weight of the run's model, or several values to tune.
        old_lm_weight: Weight of the scores in the lists, or several values to tune.
        arpa_weight: Weight of the n-gram model, or several values to tune.
        word_penalty: Penalty for each word, or several values to tune.
        words: Kaldi's words.txt, for lists of ids instead of words.
        arpa: N-gram model: an ARPA file, or one in kenlm's own format.
        against: Output of another system to compare with.
        out: Directory to write trn files and results.json to.
        overwrite: Replace files that exist.
        state: Whether the run's model reads each hypothesis separately, all as one text, or those
            of each speaker as one text.
        utt2spk: Kaldi's utt2spk.
        hypotheses: Use only this many hypotheses of each utterance, the first ones. By default all.
        ignore_keys: Keys of JSON that are not read. All other numeric keys of a hypothesis must be
            scores.
        beam_size: Number of lines for each utterance in lists of lines `text<TAB>score`, as NeMo
            writes them.
        join_pieces: Join pieces of words, which begin with ▁ or end in @@. With --nojoin_pieces
            they are words; by default they are an error.
        seed: Seed of the bootstrap.
    """

    CHOICES = {"state": ("sentence", "carried", "speaker")}
    NEEDS = {
        "tune": needs("tune_reference"), "tune_reference": needs("tune"),
        "arpa_weight": needs("arpa"), "against": needs("reference"),
        "utt2spk": needs("state", "speaker"),
    }

    run: str
    nbest: str
    reference: str | None = None
    tune: str | None = None
    tune_reference: str | None = None
    lm_weight: tuple[float, ...] = ()
    old_lm_weight: tuple[float, ...] = ()
    arpa_weight: tuple[float, ...] = ()
    word_penalty: tuple[float, ...] = ()
    words: str | None = None
    arpa: str | None = None
    against: str | None = None
    out: str | None = None
    overwrite: bool = False
    state: str = "sentence"
    utt2spk: str | None = None
    hypotheses: int | None = None
    ignore_keys: tuple = ()
    beam_size: int | None = None
    join_pieces: bool | None = None
    seed: int = 1

    def __post_init__(self):
        expect(not self.arpa or self.tune or self.arpa_weight, "arpa_weight",
               "be given with `arpa`, or lists to tune it on with `tune`", received="none")
        check_at_least(0, seed=self.seed)
        check_at_least(1, hypotheses=self.hypotheses, beam_size=self.beam_size)

    def check_pipes(self, shared) -> None:
        """Raises ValueError if two would read standard input, or several processes a pipe."""
        given = {name: path for name in FILES if (path := getattr(self, name))}
        piped = [name for name, path in given.items() if path == STANDARD_INPUT]
        if len(piped) > 1:
            raise refusal(piped[1], f"be a file where `{piped[0]}` is standard input", "-")
        once = [name for name, path in given.items() if is_read_once(path)]
        if once and (shared.workers > 1 or shared.strategy == "multiworker"):
            raise refusal(
                once[0], "be a file, which several processes can read",
                received={once[0]: given[once[0]], "workers": shared.workers,
                          "strategy": shared.strategy}
            )

    def values_of_weights(self) -> dict:
        """The values of each weight to try; one value each if there are no lists to tune on."""
        from tfsoftmax.nbest.rescoring import GRID, Weights

        grid = {}
        for name, default in dataclasses.asdict(Weights()).items():
            values = grid[name] = getattr(self, name)
            expect(all(map(math.isfinite, values)), name, "be finite", received=_joined(values))
            expect(len(values) <= 1 or self.tune, name, "be one number without --tune",
                   received=_joined(values))
            if not values:
                tried = self.tune and (name != "arpa_weight" or self.arpa)
                grid[name] = GRID[name] if tried else (default,)
        return grid


class Inputs:
    """What the flags of `rescore` name.

    Args:
        options: the `RescoreOptions`.
        lowercase: whether all words are turned into lower case.

    Attributes:
        symbols: the words of ids, or None.
    """

    def __init__(self, options: RescoreOptions, lowercase: bool):
        self.options, self.lowercase, self.symbols = options, lowercase, None

    def lists_of(self, argument):
        """The lists that a flag names, in the spelling of the model."""
        from tfsoftmax.nbest import lists as nbest
        from tfsoftmax.nbest import rescoring

        options, path = self.options, getattr(self.options, argument)
        lists = nbest.read(
            path, ids=self.symbols is not None, ignore_keys=options.ignore_keys,
            join_pieces=options.join_pieces, beam_size=options.beam_size,
        )
        lists = lists.with_words(self.symbols, self.lowercase)
        _report_marks(lists.spelling, path)
        if options.hypotheses is None:
            return lists
        return rescoring.first_hypotheses(lists, options.hypotheses)

    def check_old_lm(self, lists, grid, argument):
        """Sets old_lm_weight to 0 for lists without such scores; another weight is an error."""
        if lists.old_lm is None:
            expect(not any(self.options.old_lm_weight), "old_lm_weight",
                   "be 0 for lists without scores of a language model",
                   received=f"{argument}={getattr(self.options, argument)!r}")
            grid["old_lm_weight"] = (0.0,)

    def references_of(self, lists, argument):
        """The transcripts in the file that a flag names, in the order of the lists, or None."""
        from tfsoftmax.nbest import transcripts
        from tfsoftmax.nbest.spelling import Spelling

        path = getattr(self.options, argument)
        if not path:
            return None
        spelling = Spelling(self.options.join_pieces)
        said = transcripts.read_transcripts(
            path, self.lowercase, spelling, several=argument != "against"
        )
        _report_marks(spelling, path)
        found = lists.expect(said, argument)
        if len(said) > len(found):
            print(
                f"{path}: {len(said) - len(found):,} of {len(said):,} utterances are not in the "
                "lists and do not count.",
                file=sys.stderr,
            )
        if argument == "reference" and not any(found):
            raise refusal("reference", "have words", received=f"reference={path!r}, without any")
        return found

    def speakers_of(self, lists, argument):
        """With --state=speaker, the speaker of each hypothesis; otherwise None."""
        from tfsoftmax.nbest import transcripts

        options = self.options
        if options.state != "speaker":
            return None
        if options.utt2spk:
            speakers = lists.expect(transcripts.read_speakers(options.utt2spk), "utt2spk")
        else:
            speakers = [transcripts.speaker_of(utterance) for utterance in lists.utterances]
        source = options.utt2spk or "the beginnings of the ids"
        print(
            f"{name_of(getattr(options, argument))}: {len(set(speakers)):,} speakers in "
            f"{len(speakers):,} utterances, by {source}", file=sys.stderr,
        )
        return [s for s, n in zip(speakers, lists.sizes, strict=True) for _ in range(n)]

    def check_out(self, lists, references):
        """Makes the directory of --out, and raises an error if a file in it could not be written.

        Raises:
            ValueError: what is read would be replaced, a file of another rescoring would stay, or
                sclite would read words as alternatives.
            OSError: a file cannot be written.
        """
        from tfsoftmax.nbest import writing
        from tfsoftmax.nbest.alternatives import check_markless

        directory = self.options.out
        check_markless(lists.sentences, "nbest")
        check_markless(references or (), "reference")
        os.makedirs(directory, exist_ok=True)
        names = ["hyp.trn", "1best.trn", "results.json"]
        if self.options.reference:
            names.append("ref.trn")
        names.append(writing.name_of_lists(lists))
        written = [os.path.realpath(os.path.join(directory, name)) for name in names]
        for flag in FILES:
            given = getattr(self.options, flag)
            if not given or given == STANDARD_INPUT:
                continue
            read = os.path.realpath(given)
            replaced = any(
                read in (path, os.path.dirname(path)) or read.startswith(path + os.sep)
                for path in written
            )
            expect(not replaced, "out",
                   f"be a directory in which nothing of `{flag}` would be replaced",
                   received={"out": directory, flag: given})
        others = {"ref.trn", *(name for _, name in writing.WRITERS.values())} - set(names)
        stay = sorted(others & set(os.listdir(directory)))
        expect(not stay, "out",
               "be a directory without files of another rescoring that would stay",
               received=f"out={directory!r}, with {', '.join(stay)}")
        for path in written[:-1]:
            check_writable(path)
        writing.check_writable(directory, lists)
        for path in written:
            check_empty(path)


def check_scores(lists, tuning, grid):
    """Raises ValueError if weights would be tuned with other scores than they are used with."""
    from tfsoftmax.nbest.lists import SCORES

    names = [name for name in SCORES if name != "old_lm" or any(grid["old_lm_weight"])]
    of_lists, of_tuning = (
        {name for name in names if getattr(of, name) is not None} for of in (lists, tuning)
    )
    advice = " (or --old_lm_weight=0)" if of_lists ^ of_tuning == {"old_lm"} else ""
    expect(of_lists == of_tuning, "tune",
           f"have the scores that `nbest` has, {_listed(of_lists)}{advice}",
           received=_listed(of_tuning))


def scores_report(lists, name):
    """Says which scores the lists of a name have."""
    from tfsoftmax.nbest.lists import SCORES

    scores = _listed(name for name in SCORES if getattr(lists, name) is not None)
    return f"{name}: {len(lists.sentences):,} hypotheses with the scores: {scores}"


def _report_marks(spelling, path):
    """Says which marks were left out of the lists or the transcripts of a file."""
    if report := spelling.marks.report(name_of(path)):
        print(f"note: {report}", file=sys.stderr)


def _listed(names):
    return ", ".join(sorted(names)) or "none"


def _joined(values):
    return ",".join(map(str, values))
