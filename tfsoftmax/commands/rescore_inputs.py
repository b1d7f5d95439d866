"""What `tfsoftmax rescore` reads from its flags before it loads a model, and the checks of it."""

import dataclasses
import math
import os
import sys

from absl import flags

from tfsoftmax.commands.program import check_empty
from tfsoftmax.support.arguments import check_at_least
from tfsoftmax.support.textio import STANDARD_INPUT, name_of
from tfsoftmax.support.whole_files import check_writable

FILES = ("nbest", "tune", "reference", "tune_reference", "against", "words", "utt2spk")


def check_flags(options):
    """Raises ValueError if flags do not fit one another."""
    for name, needed in (("tune_reference", "tune"), ("tune", "tune_reference"),
                         ("arpa_weight", "arpa"), ("against", "reference")):
        if options[name].value and not options[needed].value:
            raise ValueError(f"`{needed}` must be given with `{name}`. Received: none")
    if options.arpa and not (options.tune or options.arpa_weight):
        raise ValueError(
            "`arpa_weight` must be given with `arpa`, or lists to tune it on with `tune`. "
            "Received: none"
        )
    if options.utt2spk and options.state != "speaker":
        raise ValueError(
            f"`utt2spk` may be given with --state=speaker only. Received: state={options.state!r}"
        )
    piped = [name for name in FILES if options[name].value == STANDARD_INPUT]
    if len(piped) > 1:
        raise ValueError(
            f"`{piped[1]}` must be a file where `{piped[0]}` is standard input. Received: '-'"
        )
    if piped and (options.workers > 1 or options.strategy == "multiworker"):
        raise ValueError(
            f"`{piped[0]}` must be a file, which several processes can read. Received: '-', with "
            f"workers={options.workers}, strategy={options.strategy!r}"
        )
    check_at_least(0, seed=options.seed)
    check_at_least(1, hypotheses=options.hypotheses, beam_size=options.beam_size)


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
    lists = nbest.read(
        options[argument].value, ids=symbols is not None, ignore_keys=options.ignore_keys,
        join_pieces=options.join_pieces, beam_size=options.beam_size,
    )
    lists = lists.with_words(symbols, options.lowercase)
    report_marks(lists.spelling, options[argument].value)
    if options.hypotheses is None:
        return lists
    return rescoring.first_hypotheses(lists, options.hypotheses)


def report_marks(spelling, path):
    """Says which marks were left out of the lists or the transcripts of a file."""
    if report := spelling.marks.report(name_of(path)):
        print(f"note: {report}", file=sys.stderr)


def check_scores(lists, tuning, grid):
    """Raises ValueError if weights would be tuned with other scores than they are used with."""
    from tfsoftmax.nbest.lists import SCORES

    names = [name for name in SCORES if name != "old_lm" or any(grid["old_lm_weight"])]
    of_lists, of_tuning = (
        {name for name in names if getattr(of, name) is not None} for of in (lists, tuning)
    )
    if of_lists != of_tuning:
        advice = " (or --old_lm_weight=0)" if of_lists ^ of_tuning == {"old_lm"} else ""
        raise ValueError(
            f"`tune` must have the scores that `nbest` has, {_listed(of_lists)}{advice}. "
            f"Received: {_listed(of_tuning)}"
        )


def scores_report(lists, argument):
    """Says which scores the lists that a flag names have."""
    from tfsoftmax.nbest.lists import SCORES

    scores = _listed(name for name in SCORES if getattr(lists, name) is not None)
    name, count = name_of(flags.FLAGS[argument].value), len(lists.sentences)
    return f"{name}: {count:,} hypotheses with the scores: {scores}"


def _listed(names):
    return ", ".join(sorted(names)) or "none"


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
    from tfsoftmax.nbest import transcripts
    from tfsoftmax.nbest.spelling import Spelling

    path = flags.FLAGS[argument].value
    if not path:
        return None
    spelling = Spelling(flags.FLAGS.join_pieces)
    said = transcripts.read_transcripts(
        path, flags.FLAGS.lowercase, spelling, several=argument != "against"
    )
    report_marks(spelling, path)
    found = lists.expect(said, argument)
    if len(said) > len(found):
        print(
            f"{path}: {len(said) - len(found):,} of {len(said):,} utterances are not in the lists "
            "and do not count.",
            file=sys.stderr,
        )
    if argument == "reference" and not any(found):
        raise ValueError(f"`reference` must have words. Received: reference={path!r}, without any")
    return found


def speakers_of(lists, argument):
    """With --state=speaker, the speaker of each hypothesis; otherwise None."""
    from tfsoftmax.nbest import transcripts

    options = flags.FLAGS
    if options.state != "speaker":
        return None
    if options.utt2spk:
        speakers = lists.expect(transcripts.read_speakers(options.utt2spk), "utt2spk")
    else:
        speakers = [transcripts.speaker_of(utterance) for utterance in lists.utterances]
    source = options.utt2spk or "the beginnings of the ids"
    print(
        f"{name_of(options[argument].value)}: {len(set(speakers)):,} speakers in "
        f"{len(speakers):,} utterances, by {source}", file=sys.stderr,
    )
    return [s for s, n in zip(speakers, lists.sizes, strict=True) for _ in range(n)]


def check_out(directory, lists, references):
    """Makes the directory of --out, and raises an error if a file in it could not be written.

    Raises:
        ValueError: what is read would be replaced, a file of another rescoring would stay, or
            sclite would read words as alternatives.
        OSError: a file cannot be written.
    """
    from tfsoftmax.nbest import writing
    from tfsoftmax.nbest.alternatives import check_markless

    check_markless(lists.sentences, "nbest")
    check_markless(references or (), "reference")
    os.makedirs(directory, exist_ok=True)
    names = ["hyp.trn", "1best.trn", "results.json"]
    if flags.FLAGS.reference:
        names.append("ref.trn")
    names.append(writing.name_of_lists(lists))
    written = [os.path.realpath(os.path.join(directory, name)) for name in names]
    for flag in FILES:
        given = flags.FLAGS[flag].value
        if not given or given == STANDARD_INPUT:
            continue
        read = os.path.realpath(given)
        if any(read == path or read.startswith(path + os.sep) or os.path.dirname(path) == read
               for path in written):
            raise ValueError(
                f"`out` must be a directory in which nothing of `{flag}` would be replaced. "
                f"Received: out={directory!r}, {flag}={given!r}"
            )
    others = {"ref.trn", *(name for _, name in writing.WRITERS.values())} - set(names)
    for name in sorted(others & set(os.listdir(directory))):
        raise ValueError(
            "`out` must be a directory without what another rescoring wrote and this one does not. "
            f"Received: out={directory!r}, with {name}"
        )
    for path in written[:-1]:
        check_writable(path)
    writing.check_writable(directory, lists)
    for path in written:
        check_empty(path)
