"""Extracts English sentences from docstrings, without code, markup, tables and signatures."""

import re

_SECTIONS = (
    "args|arguments|attributes|call arguments|example|examples|example usage|examples usage|"
    "input|inputs|input shape|keyword args|keyword arguments|kwargs|methods|note|notes|options|"
    "output|outputs|output shape|parameters|other parameters|raise|raises|reference|references|"
    "return|returns|see also|todo|usage|usage example|warning|warnings|warns|where|yields"
)
_FENCE = re.compile(r"^\s*(```|~~~)")
_PROMPT = re.compile(r"^\s*(>>>|\.\.\. |\$ |%|In \[\d)")
_RULE = re.compile(r"^\s*[-=~^*#+_|:. ]{3,}$")
_TABLE = re.compile(r"^\s*[|+]|\s\|\s|\S {3,}\S")
_DIRECTIVE = re.compile(r"^\s*\.\. |^\s*@(end_)?compatibility")
_DIRECTIVE_WITH_PROSE = re.compile(
    r"^\s*\.\. (note|warning|version(added|changed)|deprecated|seealso|tip|important|admonition)"
)
_SECTION = re.compile(rf"^\s*#*\s*\**({_SECTIONS})\**\s*:?\**\s*$", re.IGNORECASE)
_NUMPY_PARAMETER = re.compile(r"^\s*[\w*\\.`'\"]+(, ?[\w*\\.`'\"]+)* : \S")
_PARAMETER = re.compile(
    r"^\s*[*`\"']*[\w.*/-]+[`\"']*( ?\([^)]*\)| ?<[^>]*>)?[`*]* ?(:|--) +(?=\S)"
)
_FIELD = re.compile(r"^\s*(:[\w ,*\\`.\[\]|~]+:|@\w+( \w+)?:?)(\s+|$)")
_BULLET = re.compile(r"^\s*([-*+•o]|\(?[0-9a-z]{1,2}[.)]|\[\d+\]|#+)\s+")

_INLINE = [  # what has to be in a text for the pattern to be found, the pattern, its replacement
    ("](", re.compile(r"!?\[([^\]]+)\]\([^)]*\)"), r"\1"),  # [text](link)
    (":`", re.compile(r":[\w:+-]+:`[~!]?([^`<]+?)(\s*<[^`>]*>)?`"), r"\1"),  # :role:`text <target>`
    ("`", re.compile(r"`([^`<]+?)\s*<[^`>]*>`_*"), r"\1"),  # `text <link>`_
    ("`", re.compile(r"`{1,2}([^`]+)`{1,2}_*"), r"\1"),  # `code`
    ("[", re.compile(r"\[[\w -]*\d[\w -]*\]_?(?=\W|$)"), ""),  # [1]_
    ("*", re.compile(r"(?<![\w*])\*{1,3}([\w' ,-]+)\*{1,3}(?![\w*])"), r"\1"),  # *emphasis*
    ("://", re.compile(r"<?(https?|ftp)://\S+"), " <url> "),  # not a word, which drops its sentence
    ("()", re.compile(r"(?<=\w)\(\)"), ""),  # call()
    ("s)", re.compile(r"(?<=\w)\((s|es|ies)\)"), r"\1"),  # value(s)
]
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")
_ABBREVIATION = re.compile(
    r"(\b(e\.g|i\.e|etc|vs|cf|resp|approx|fig|eq|sec|dr|mr|mrs|incl))\.$",
    re.IGNORECASE,
)
_EDGES = "\"'`.,;:!?()[]{}*“”‘’…"
_ENGLISH = re.compile(r"[a-z]+('[a-z]+)?")
_NUMBER = re.compile(r"-?\d{1,4}(\.\d{1,3})?[a-z]{0,2}")
_IDENTIFIER = re.compile(r"_*[a-z][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")
_FUNCTION_WORDS = frozenset(
    "a an the this that these those it its of to in on at by for from with without as into is are "
    "was be been has have had can may must should will would does do not if when which who whose "
    "and or but than then so no there you we they he she your their our each every any all".split()
)


def sentences(docstring: str) -> list[str]:
    """The sentences of a docstring, each a str of lower-case words between blanks."""
    found = []
    for paragraph in _paragraphs(docstring):
        for part, pattern, replacement in _INLINE:
            if part in paragraph:
                paragraph = pattern.sub(replacement, paragraph)
        for sentence in _split(paragraph):
            words = _words(sentence)
            if words:
                found.append(" ".join(words))
    return found


def _paragraphs(docstring):
    """Yields each paragraph of prose as one line of text."""
    paragraph, previous_indent, code_indent, fenced, prompted = [], 0, None, False, False
    for line in docstring.expandtabs().splitlines():
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if _FENCE.match(line):
            fenced = not fenced
            text = ""
        prompted = bool(text) and (prompted or bool(_PROMPT.match(line)))
        if code_indent is not None and text and indent <= code_indent:
            code_indent = None
        starts = True
        if fenced or prompted or code_indent is not None or not text or _is_no_prose(line):
            text = ""
        elif _DIRECTIVE.match(line):
            code_indent = None if _DIRECTIVE_WITH_PROSE.match(line) else indent
            text = ""
        elif match := (_FIELD.match(line) or _BULLET.match(line)):
            text = line[match.end() :].strip()
            text = text[match.end() :] if (match := _PARAMETER.match(text)) else text
        elif match := _PARAMETER.match(line):
            text = line[match.end() :].strip()
        else:
            starts = indent < previous_indent
        if starts and paragraph:
            yield " ".join(paragraph)
            paragraph = []
        if text:
            paragraph.append(text)
            previous_indent = indent
            if text.endswith("::"):
                code_indent = indent
    if paragraph:
        yield " ".join(paragraph)


def _is_no_prose(line):
    return (
        _RULE.match(line) or _TABLE.search(line) or _SECTION.match(line)
        or _NUMPY_PARAMETER.match(line)
    )


def _split(paragraph):
    """Yields the sentences of a paragraph."""
    start = 0
    for match in _END.finditer(paragraph):
        if not _ABBREVIATION.search(paragraph[start : match.start()]):
            yield paragraph[start : match.start()]
            start = match.end()
    yield paragraph[start:]


def _words(sentence):
    """The words of a sentence; an empty list if it does not read like English."""
    words, english = [], 0
    for part in re.split(r"[\s—–/]+|--+|(?<=\w)-(?=\w)", sentence.lower()):
        word = part.strip(_EDGES).replace("’", "'")
        if _ENGLISH.fullmatch(word):
            english += 1
        elif not word or word in "-&":
            continue
        elif not (_NUMBER.fullmatch(word) or _IDENTIFIER.fullmatch(word)):
            return []
        words.append(word)
    functions = sum(word in _FUNCTION_WORDS for word in words)
    if len(words) < 4 or english < 0.75 * len(words) or functions < 0.15 * len(words):
        return []
    return words
