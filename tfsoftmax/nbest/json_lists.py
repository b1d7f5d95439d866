"""N-best lists as lines of JSON, one for each utterance, and in ESPnet1's data.json.

The keys are those that programs around ESPnet, icefall, NeMo and Whisper write.
"""

import json
import os
from collections.abc import Collection, Iterable, Iterator

from tfsoftmax.nbest.rows import Row, number
from tfsoftmax.support import textio, whole_files
from tfsoftmax.support.arguments import brief, expect, refusal

LINE_BYTES = 16 << 20
UTTERANCE = ("utt_id", "utt", "uttid", "id", "key")
AUDIO = "audio_filepath"  # NeMo's, where there is none of these: the name of the file is the id
HYPOTHESES = ("nbest", "hyps", "hypotheses", "beams", "output", "input")
# ESPnet1 has the reference in "text" beside "rec_text".
TEXT = ("rec_text", "text", "hyp", "hypothesis", "sentence")
ACOUSTIC = ("am_score", "ac_score", "acoustic_score", "score", "avg_logprob")
OLD_LM = ("lm_score", "ngram_lm_score")
MEAN = "avg_logprob"  # Whisper's, which is the mean over its tokens and the end of the text


def begins(path: str) -> bool:
    """Whether a file has lines of JSON, be it called *.json, as the manifests of NeMo are."""
    try:
        _, line = next(textio.lines(path, LINE_BYTES))
        record = textio.parsed_json(line, path)
    except (StopIteration, ValueError):  # of a document, which says what is wrong
        return False
    return isinstance(record, dict) and not record.keys().isdisjoint((*UTTERANCE, AUDIO))


def rows(lines: Iterable[tuple[str, str]], ignore_keys: Collection[str] = ()) -> Iterator[Row]:
    """Yields the hypotheses of lines of JSON, each given with its place.

    A line is an object with the id of an utterance (one of the keys in `UTTERANCE`, or `AUDIO`) and
    a list of hypotheses, the best first (`HYPOTHESES`). Each is an object with its text (`TEXT`),
    or a text, or a pair of text and score; a text is a string or a list of words. The scores
    (`ACOUSTIC` and `OLD_LM`, natural logarithms) are in the objects, or, with an s at the end or
    not, in lists beside that of the hypotheses. All hypotheses have the same scores, or none. Each
    utterance has one record, and one hypothesis or more.

    Args:
        lines: the lines.
        ignore_keys: keys that are not read. Other keys of a hypothesis under which there are
            numbers must be those of scores, since a score that is not read would count as zero.

    Raises:
        ValueError: a line is no JSON, or lacks one of these, or has numbers under another key; the
            message names the key.
    """
    yield from _rows((
        (where, textio.parsed_json(line, f"{where}:")) for where, line in lines if line.strip()
    ), ignore_keys)


def document_rows(path: str, ignore_keys: Collection[str] = ()) -> Iterator[Row]:
    """Yields the hypotheses of a file that is one document of JSON.

    Args:
        path: a file with a list of what `rows` takes line by line, or with ESPnet1's
            {"utts": {utterance: {"output": [...]}}}.
        ignore_keys: an argument of `rows`.

    Raises:
        ValueError: the file is neither.
    """
    name, data = textio.name_of(path), textio.read_json(path)
    if isinstance(data, dict) and isinstance(data.get("utts"), dict):
        records = (
            (f"{name}, utterance {key!r}", {**value, "utt_id": key} if isinstance(value, dict)
             else value) for key, value in data["utts"].items()
        )
    elif isinstance(data, list):
        records = ((f"{name}, element {i}", value) for i, value in enumerate(data, start=1))
    else:
        raise ValueError(f"{name}: must be a list of utterances, or have the key 'utts'")
    return _rows(records, ignore_keys)


def write(path: str, rows: Iterable[Row]) -> None:
    """Writes lines `{"utt_id": ..., "nbest": [{"text": ..., "am_score": ..., ...}]}`."""
    lists = {}
    for row in rows:
        scores = {"am_score": row.acoustic, "lm_score": row.old_lm}
        given = {name: score for name, score in scores.items() if score is not None}
        text = " ".join(row.words)
        # A list keeps the marks that a text would lose.
        text = text if _words(text, "") == row.words else row.words
        lists.setdefault(row.utterance, []).append({"text": text, **given})
    with whole_files.writing(path) as file:
        for utterance, of_utterance in lists.items():
            record = {"utt_id": utterance, "nbest": of_utterance}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _rows(records, ignored):
    expected, seen = None, set()
    for where, record in records:
        record = _without(record, ignored)
        utterance = _utterance(record, where)
        if _encodable(utterance, where).split() != [utterance]:
            raise refusal(f"{where}: utterances", "have no blanks", utterance)
        expect(utterance not in seen, f"{where}: each utterance", "have one record",
               received=f"{utterance!r} again")
        seen.add(utterance)
        hypotheses = _value(record, HYPOTHESES, list, "a list of hypotheses", where)
        expect(hypotheses, f"{where}:", "have one hypothesis or more, which may be empty",
               received="[]")
        beside = [_beside(record, keys, hypotheses, where) for keys in (ACOUSTIC, OLD_LM)]
        read = [hypotheses, *(values for _, values in beside)]
        _refuse_unread((
            key for key, value in record.items()
            if isinstance(value, list) and not any(value is each for each in read)
            and len(value) == len(hypotheses) and all(map(_has_numbers, value))
            and key not in (MEAN, MEAN + "s")
        ), where)
        for i, hypothesis in enumerate(hypotheses):
            place = f"{where}, hypothesis {i + 1}"
            words, *scores = _parsed(_without(hypothesis, ignored), place)
            for column, (key, values) in enumerate(beside):
                if scores[column] is None and values is not None:
                    scores[column] = key, _score(values[i], place)
            expect(scores[0] is not None or (MEAN not in record and MEAN + "s" not in record),
                   f"{place}:", f"have {MEAN!r} and 'tokens', a list, as it is a mean over them",
                   received=f"{MEAN!r} beside the hypotheses")
            keys = tuple(None if score is None else score[0] for score in scores)
            expected = expected or keys
            if keys != expected:
                raise refusal(f"{place}: all hypotheses", "have the scores of the first, "
                              f"{_listed(expected)}", received=_listed(keys))
            acoustic, old_lm = (score and score[1] for score in scores)
            yield Row(utterance, words, acoustic, old_lm, where=place)


def _utterance(record, where):
    if isinstance(record, dict) and isinstance(record.get(AUDIO), str):
        if record.keys().isdisjoint(UTTERANCE):
            return os.path.splitext(os.path.basename(record[AUDIO]))[0]
    return str(_value(record, UTTERANCE, (str, int), "its utterance", where))


def _without(record, ignored):
    """A record without the keys that are ignored."""
    if not (ignored and isinstance(record, dict)):
        return record
    return {key: value for key, value in record.items() if key not in ignored}


def _refuse_unread(keys, where):
    """Raises ValueError if there are keys with numbers that nothing reads."""
    if keys := list(map(repr, keys)):
        raise refusal(f"{where}: numbers", f"be scores under one of the keys "
                      f"{', '.join(ACOUSTIC)}, and under one of {', '.join(OLD_LM)}; `ignore_keys` "
                      "names others, which are not read", received=', '.join(keys))


def _has_numbers(value):
    values = value.values() if isinstance(value, dict) else [value]
    return any(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)


def _listed(keys):
    return ", ".join(key for key in keys if key) or "none"


def _value(record, keys, types, kind, where):
    """The value of the first of the keys that has one of the right kind."""
    if not isinstance(record, dict):
        raise refusal(f"{where}:", "be a JSON object", received=f"{_brief(record)}")
    found = (record[key] for key in keys if key in record)
    value = next((v for v in found if isinstance(v, types) and not isinstance(v, bool)), None)
    if value is None:
        raise refusal(f"{where}:", f"have {kind} under one of the keys {', '.join(keys)}",
                      received=f"{', '.join(record) or 'no keys'}")
    return value


def _beside(record, keys, hypotheses, where):
    """The key, in the singular, and the values of the scores beside the list of hypotheses."""
    for name, key in ((each, each + s) for each in keys if each != MEAN for s in ("", "s")):
        if isinstance(record.get(key), list):
            expect(len(record[key]) == len(hypotheses), f"{where}: {key!r}",
                   f"have a score for each of {len(hypotheses)} hypotheses",
                   received=f"{len(record[key])}")
            return name, record[key]
    return None, None


def _parsed(hypothesis, where):
    """The words, and the key and the value of the acoustic and the old language model's score."""
    if not isinstance(hypothesis, dict):
        pair = isinstance(hypothesis, list) and len(hypothesis) == 2
        if pair and isinstance(hypothesis[0], str) and not isinstance(hypothesis[1], str):
            return _words(hypothesis[0], where), ("score", _score(hypothesis[1], where)), None
        return _words(hypothesis, where), None, None
    text = _value(hypothesis, TEXT, (str, list), "its text", where)
    found = [next((k for k in keys if k in hypothesis), None) for keys in (ACOUSTIC, OLD_LM)]
    read = (*found, *UTTERANCE)
    _refuse_unread((k for k, v in hypothesis.items() if k not in read and _has_numbers(v)), where)
    scores = [key and (key, _score(hypothesis[key], where)) for key in found]
    if found[0] == MEAN:
        expect(isinstance(hypothesis.get("tokens"), list), f"{where}:",
               f"have the key 'tokens', a list, as {MEAN!r} is a mean over them",
               received=f"{', '.join(hypothesis)}")
        scores[0] = MEAN, scores[0][1] * (len(hypothesis["tokens"]) + 1)
    return _words(text, where), *scores


def _words(text, where):
    if isinstance(text, str):
        # ESPnet1 joins its tokens: <eos> is the last, and ▁ begins a word of sentencepiece.
        words = _encodable(text, where).replace("<eos>", " ").split()
        return tuple(words[0].replace("▁", " ").split() if len(words) == 1 else words)
    if isinstance(text, list) and all(isinstance(word, str) for word in text):
        return tuple(_encodable(" ".join(text), where).split())
    raise refusal(f"{where}:", "be a text, a list of words, a pair of text and score, or an object",
                  received=f"{_brief(text)}")


def _encodable(text, where):
    """A text that can be written; JSON may have halves of surrogate pairs."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise refusal(f"{where}:", "be Unicode", received=f"{text[:80]!a}") from None
    return text


def _score(value, where):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refusal(f"{where}: scores", "be finite numbers", received=_brief(value))
    return number(value, where)


def _brief(value):
    return brief(json.dumps(value, ensure_ascii=False))
