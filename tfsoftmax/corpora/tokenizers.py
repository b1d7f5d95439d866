"""How sentences are split into the words or pieces that a model reads, and put together again."""

import abc
import codecs
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from tfsoftmax.support.arguments import refusing
from tfsoftmax.support.extras import imported
from tfsoftmax.support.vocabulary import EOS, UNK

SPACE = "\u2581"  # what sentencepiece writes for a blank
READABLE = "be a model of sentencepiece, or a tokenizers file that ends in .json"
PRIVATE_USE = range(0xE000, 0xF900)  # characters without a meaning of their own


class Tokenizer(abc.ABC):
    """Splits sentences into pieces, the members of a `Vocabulary`.

    Attributes:
        pieces: the pieces that sentences can be split into, `<unk>` and `<eos>` excepted; None if
            the words of the text decide.

    Example:
        from tfsoftmax.corpora.tokenizers import Words
        tokenizer = Words()
        pieces = tokenizer.encode("the cat sat")
        print(pieces, tokenizer.decode(pieces))
    """

    pieces: tuple | None = None

    @abc.abstractmethod
    def encode_all(self, sentences: Sequence[str]) -> Iterable[list[str]]:
        """The pieces of each sentence; none for one that is empty or blank."""

    @abc.abstractmethod
    def chunks(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yields what each piece adds to the text, and at last what is left of an unfinished
        character."""

    def encode(self, sentence: str) -> list[str]:
        """The pieces of a sentence."""
        return next(iter(self.encode_all([sentence])))

    def decode(self, pieces: Iterable[str]) -> str:
        """The sentence that consists of these pieces."""
        return "".join(self.chunks(pieces))


class Words(Tokenizer):
    """Splits sentences into the words between blanks.

    Example:
        from tfsoftmax.corpora.tokenizers import Words
        print(Words().encode("the  cat "))  # ['the', 'cat']
    """

    def encode_all(self, sentences):
        return map(str.split, sentences)

    def decode(self, pieces):
        return " ".join(pieces)

    def chunks(self, pieces):
        for number, word in enumerate(pieces):
            yield f" {word}" if number else word
        yield ""


class SentencePieces(Tokenizer):
    """Splits sentences with a model of sentencepiece.

    The pieces of a model with byte fallback whose normalisation is "identity", such as
    `piece_training` makes, restore every text, U+2581 in it included.

    Args:
        path: a `.model` file.

    Example:
        from tfsoftmax.corpora.tokenizers import SentencePieces
        tokenizer = SentencePieces("data/pieces/tokenizer.model")
        print(tokenizer.encode("the number of bytes"))
    """

    def __init__(self, path: str | os.PathLike):
        path, package = os.fspath(path), imported("sentencepiece", "`tokenizer`")
        with refusing((OSError, RuntimeError), f"{path}:", READABLE):
            model = package.SentencePieceProcessor(model_file=path)
        ids = range(model.get_piece_size())
        texts = [model.id_to_piece(i) for i in ids]
        used = [i for i in ids if not (model.is_control(i) or model.is_unused(i))]
        names = {texts[i]: _name(texts[i]) for i in used if not model.is_unknown(i)}
        self._model, self.pieces = model, tuple(names.values())
        self._renamed = {piece: name for piece, name in names.items() if piece != name}
        self._bytes = {name: piece.replace(SPACE, " ").encode() for piece, name in names.items()}
        self._of_byte = {int(texts[i][3:5], 16): texts[i] for i in used if model.is_byte(i)}
        self._bytes |= {piece: bytes([byte]) for byte, piece in self._of_byte.items()}
        self._characters = set("".join(names))
        self._prefixed = model.encode("a", out_type=str)[0].startswith(SPACE)

    def encode_all(self, sentences):
        texts = [text if text.strip() else "" for text in sentences]
        marked = [SPACE in text and bool(self._of_byte) for text in texts]
        stand_ins = [self._stand_in(text) if has else None for text, has in zip(texts, marked)]
        found = self._model.encode(
            [text.replace(SPACE, other) if other else text
             for text, other in zip(texts, stand_ins)],
            out_type=str,
        )
        found = [self._with_mark(p, other) if other else p for p, other in zip(found, stand_ins)]
        if not self._renamed:
            return found
        return [[self._renamed.get(piece, piece) for piece in pieces] for pieces in found]

    def chunks(self, pieces):
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for number, piece in enumerate(pieces):
            surface = self._bytes.get(piece)
            text = decoder.decode(piece.encode() if surface is None else surface)
            first = number == 0 and self._prefixed
            yield text.removeprefix(" ") if first else text
        yield decoder.decode(b"", final=True)

    def _stand_in(self, text):
        """A character to read in place of U+2581, which sentencepiece would take for a blank."""
        characters = map(chr, PRIVATE_USE)
        return next(c for c in characters if c not in self._characters and c not in text)

    def _with_mark(self, pieces, stand_in):
        """The pieces with the bytes of U+2581 in place of those of the character read for it."""
        mark = [self._of_byte[byte] for byte in SPACE.encode()]
        read, result = [self._of_byte[byte] for byte in stand_in.encode()], []
        for piece in pieces:
            result.append(piece)
            if result[-len(read):] == read:
                result[-len(read):] = mark
        return result


class JsonTokenizer(Tokenizer):
    """Splits sentences with a `tokenizer.json` of Hugging Face's `tokenizers`.

    Whether the pieces restore the text is for the file to decide: byte-level ones do, while others
    change the case or the blanks.

    Args:
        path: a JSON file.

    Example:
        from tfsoftmax.corpora.tokenizers import JsonTokenizer
        tokenizer = JsonTokenizer("tokenizer.json")
        print(tokenizer.encode("the number of bytes"))
    """

    def __init__(self, path: str | os.PathLike):
        path, self._package = os.fspath(path), imported("tokenizers", "`tokenizer`")
        with refusing(Exception, f"{path}:", READABLE):  # the package raises nothing more special
            model = self._package.Tokenizer.from_file(path)
        model.no_padding()
        model.no_truncation()
        if getattr(model.model, "dropout", None):
            model.model.dropout = None  # which would split each reading of a text differently
        ids, unknown = model.get_vocab(with_added_tokens=True), _unknown_id(model)
        self._model = model
        self._names = {number: _name(token) for token, number in ids.items()}
        if unknown is not None:
            self._names[unknown] = UNK
        self._ids = {name: number for number, name in self._names.items()}
        self.pieces = tuple(name for name in self._ids if name != UNK)

    def encode_all(self, sentences):
        texts = [text if text.strip() else "" for text in sentences]
        with refusing(Exception, "tokenizer", "have a token for what it does not know"):
            found = self._model.encode_batch(texts, add_special_tokens=False)
        return [[self._names[number] for number in encoding.ids] for encoding in found]

    def chunks(self, pieces):
        stream = self._package.decoders.DecodeStream(skip_special_tokens=False)
        read, text = [], ""
        for piece in pieces:
            read.append(piece)
            chunk = stream.step(self._model, self._ids[piece]) or ""
            text += chunk
            yield chunk
        whole = self.decode(read)
        yield whole[len(text):] if whole.startswith(text) else ""

    def decode(self, pieces):
        return self._model.decode([self._ids[p] for p in pieces], skip_special_tokens=False)


def load_tokenizer(path: str | os.PathLike | None) -> Tokenizer:
    """The tokenizer in a file: a `tokenizers` JSON if its name ends in .json, else a model of
    sentencepiece. `Words` for None.

    Raises:
        RuntimeError: the package that reads the file is not installed.
        ValueError: the file is no such model.
    """
    if path is None:
        return Words()
    return (JsonTokenizer if os.fspath(path).endswith(".json") else SentencePieces)(path)


def check_tokenizer(choice: str, model: str | None) -> None:
    """Raises what would go wrong with a choice of `PrepareConfig`, before long work begins.

    Args:
        choice: the tokenizer.
        model: the model of pieces that is to be trained, or None.
    """
    if model is not None:
        imported("sentencepiece", "`tokenizer`")
    elif choice != "words":
        load_tokenizer(choice)


def word_numbers(tokenizer: Tokenizer, pieces: Sequence[str]) -> tuple[list[str], list[int]]:
    """The words of a sentence, and for each of its pieces the number of the word it belongs to.

    Blanks belong to the word behind them, and those at the end to the last word.
    """
    chunks = list(tokenizer.chunks(pieces))[: len(pieces)]
    words, numbers, inside = 0, [], False
    for chunk in chunks:
        for character in chunk:
            words += not (character.isspace() or inside)
            inside = not character.isspace()
        numbers.append(words - inside)
    found = tokenizer.decode(pieces).split()
    return found, [max(0, min(number, len(found) - 1)) for number in numbers]


def _name(piece):
    """How the vocabulary spells a piece: without blanks, and unlike `<unk>` and `<eos>`."""
    name = re.sub(r"[\s\\]", lambda m: "\\\\" if m[0] == "\\" else f"\\u{ord(m[0]):04x}", piece)
    return f"\\{name}" if name in (UNK, EOS, "") else name


def _unknown_id(model):
    """The id of what the model of a `tokenizers.Tokenizer` does not know, or None."""
    described = json.loads(model.to_str())["model"]  # that of Unigram is no attribute in Python
    if described.get("unk_id") is not None:
        return described["unk_id"]
    return model.token_to_id(described.get("unk_token") or "")
