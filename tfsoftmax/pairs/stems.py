"""The stems that ROUGE-1.5.5 compares with -m: irregular forms by a table, others by Porter."""

import functools
import re
from pathlib import Path

_IRREGULAR = Path(__file__).with_name("irregular_words.txt")
_CONSONANTS, _VOWELS = "[^aeiou][^aeiouy]*", "[aeiouy][aeiou]*"
_BEGIN = f"^(?:{_CONSONANTS})?"
_has_vowel = re.compile(f"{_BEGIN}[aeiouy]").search
_measure_over_0 = re.compile(f"{_BEGIN}{_VOWELS}{_CONSONANTS}").search
_measure_1 = re.compile(f"{_BEGIN}{_VOWELS}{_CONSONANTS}(?:{_VOWELS})?$").search
_measure_over_1 = re.compile(f"{_BEGIN}{_VOWELS}{_CONSONANTS}{_VOWELS}{_CONSONANTS}").search
_short = re.compile(f"^{_CONSONANTS}[aeiouy][^aeiouwxy]$").search
_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize",
    "bli": "ble", "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize",
    "ation": "ate", "ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful",
    "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}
_STEP_3 = {
    "icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": "",
}
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
)


@functools.lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """The stem of a word of the letters a to z and digits.

    Words of at most three letters are their own stems. Irregular forms have the base form that
    WordNet 2.0 states ("rose": "rise"), and all other words what Porter's algorithm leaves of them,
    as ROUGE-1.5.5 has it: after -ement without success it also tries -ment and -ent, so that
    "agreement" becomes "agreem".

    Source: Porter 1980; ROUGE-1.5.5 (Lin 2004).
    """
    if len(word) <= 3:
        return word
    return _irregular().get(word) or _porter(word)


@functools.cache
def _irregular():
    lines = _IRREGULAR.read_text(encoding="utf-8").splitlines()
    return dict(line.split() for line in lines if not line.startswith("#"))


def _porter(word):
    if word[0] == "y":  # a consonant there, which the patterns take "Y" for
        return "y" + _porter("Y" + word[1:])[1:]
    word = re.sub("(ss|i)es$|([^s])s$", r"\1\2", word)
    if word.endswith("eed"):
        word = word[:-1] if _measure_over_0(word[:-3]) else word
    elif (found := re.search("(ed|ing)$", word)) and _has_vowel(word[: found.start()]):
        word = word[: found.start()]
        if word.endswith(("at", "bl", "iz")) or _short(word):
            word += "e"
        elif re.search(r"([^aeiouylsz])\1$", word):
            word = word[:-1]
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, _STEP_2, _measure_over_0)
    word = _replaced(word, _STEP_3, _measure_over_0)
    word = _replaced(word, dict.fromkeys(_STEP_4, ""), _measure_over_1)
    word = _replaced(word, {"ment": ""}, _measure_over_1)
    word = _replaced(word, {"ent": ""}, _measure_over_1)
    if word.endswith(("sion", "tion")) and _measure_over_1(word[:-3]):
        word = word[:-3]
    if word.endswith("e"):
        begin = word[:-1]
        if _measure_over_1(begin) or (_measure_1(begin) and not _short(begin)):
            word = begin
    return word[:-1] if word.endswith("ll") and _measure_over_1(word) else word


def _replaced(word, suffixes, condition):
    """The word with another end, if what stands before its longest suffix meets the condition."""
    ends = [suffix for suffix in suffixes if word.endswith(suffix)]
    longest = max(ends, key=len, default="")
    begin = word.removesuffix(longest)
    return begin + suffixes[longest] if ends and condition(begin) else word
