"""Files that say where a word belongs: lines of a code and a word, or nested lists."""

import json
import os
import re
from collections.abc import Sequence

from tfsoftmax.support import textio, whole_files
from tfsoftmax.support.arguments import ArrayLike, expect
from tfsoftmax.support.vocabulary import OTHER_SPELLINGS

# What a line holds in each format, and the expression that finds the code and the word in it.
FORMATS = {
    "paths": ("`code<TAB>word` or `code<TAB>word<TAB>count`",
              r"(?P<code>[^\t]+)\t(?P<word>[^\t]+)(\t[^\t]+)?"),
    "mkcls": ("`word<TAB>class`", r"(?P<word>[^\t]+)\t(?P<code>[^\t]+)"),
    "word2vec": ("`word class`", r"(?P<word>[^ \t]+) (?P<code>[^ \t]+)"),
    "srilm": ("`class word` or `class probability word`",
              r"(?P<code>[^ \t]+)[ \t]+([.\d]+([eE][-+]?\d+)?[ \t]+)?(?P<word>[^ \t]+)"),
}


def read_codes(
    path: str | os.PathLike, words: Sequence[str], format: str = "paths"
) -> list[str]:
    """The code of each word, from a line for each word.

    The `paths` files of the common brown-cluster tool have lines `code<TAB>word<TAB>count`, whose
    codes are bit strings, and so have the files that `write_codes` writes. The other formats have
    names of classes, for which numbers of the same length are the codes. A file that lacks `<unk>`
    or `<eos>` may have <UNK> and </s> for them. Words that are only in the file are left out. Words
    that are only in the vocabulary share the code "1", and then all other codes begin with "0".

    Args:
        path: path of a UTF-8 file.
        words: V str.
        format: "paths"; "mkcls", whose lines are `word<TAB>class`; "word2vec", `word class`; or
            "srilm", `class word` or `class probability word`.

    Returns:
        list of V str.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line is not of this form, a word occurs twice, no word is known, or a file
            in the format "paths" has more words of the vocabulary as codes than as words.
    """
    form, pattern = FORMATS[format]
    rows = []
    for where, line in textio.lines(path):
        found = re.fullmatch(pattern, line)
        expect(found, f"{where}:", f"be {form}", line)
        rows.append((where, found["code"], found["word"]))
    of_codes, of_words = (set(words).intersection(row[i] for row in rows) for i in (1, 2))
    expect(
        format != "paths" or len(of_codes) <= len(of_words), f"{os.fspath(path)}:", f"be {form}",
        received="more words of the vocabulary in place of codes than as words, "
        f"{len(of_codes)} and {len(of_words)}; `tfsoftmax cluster --method=file --format=mkcls` "
        "takes lines `word<TAB>class`",
    )
    codes = {}
    for where, code, word in rows:
        expect(word not in codes, f"{where}: words", "differ", received=f"{word!r} again")
        codes[word] = code
    if format != "paths":
        names = sorted(set(codes.values()))
        numbers = {name: f"{i:0{len(str(len(names) - 1))}}" for i, name in enumerate(names)}
        codes = {word: numbers[name] for word, name in codes.items()}
    found = [codes.get(word) or codes.get(OTHER_SPELLINGS.get(word)) for word in words]
    if None not in found:
        return found
    expect(any(found), f"{os.fspath(path)}:", "have words of the vocabulary",
           received=f"{len(codes)} words, none of them known")
    return ["1" if code is None else "0" + code for code in found]


def write_codes(
    path: str | os.PathLike, codes: Sequence[str], words: Sequence[str], counts: ArrayLike
) -> None:
    """Writes lines `code<TAB>word<TAB>count`, the `paths` format, sorted by code and count."""
    rows = sorted(zip(codes, (-int(n) for n in counts), words))
    with whole_files.writing(path) as file:
        file.writelines(f"{code}\t{word}\t{-negative}\n" for code, negative, word in rows)


def read_nested(path: str | os.PathLike) -> list:
    """Nested lists of words, from a JSON file."""
    nested = textio.read_json(path)
    expect(isinstance(nested, list), f"{os.fspath(path)}:", "be nested lists", nested)
    return nested


def write_nested(path: str | os.PathLike, nested: list) -> None:
    """Writes nested lists of words as JSON."""
    with whole_files.writing(path) as file:
        json.dump(nested, file, ensure_ascii=False)
