"""What a program that makes a head by its name has to know: its class, and a table of arguments."""

from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

from tfsoftmax import heads, survey
from tfsoftmax.heads.sampling import SamplingHead
from tfsoftmax.heads.tied import TiedHead
from tfsoftmax.layers.adaptive_embedding import AdaptiveEmbedding
from tfsoftmax.layers.character_embedding import CharacterEmbedding
from tfsoftmax.layers.embedding import Embedding
from tfsoftmax.lm.head_names import HEAD_NAMES
from tfsoftmax.partitions import classes, tree_builders
from tfsoftmax.partitions.cutoffs import automatic_cutoffs
from tfsoftmax.sharding.embedding import ShardedEmbedding
from tfsoftmax.support.vocabulary import Vocabulary

# The heads of the package that are distributions, by the names of commands.
HEADS = {
    name: getattr(heads if hasattr(heads, cls) else survey, cls)
    for name, (cls, _) in HEAD_NAMES.items()
}


class KnownOptions(NamedTuple):
    """Which arguments of a head a vocabulary, a file or the machine decides, and how it is tied.

    Attributes:
        vocabulary: names of the arguments that are filled with what the vocabulary has under the
            same names: `counts`, `words`.
        not_if_tied: those of them that a head with `tied_to` does not take.
        files: names of the arguments that may be the path of a file, each with the strings that
            mean something else.
        machine: names of the arguments for which "auto" is decided by measuring the machine, when
            the head is built; a run keeps what was decided.
        matrices: names of the arguments that are initializers of matrices.
        embedding: the function that makes the input embedding to which the head is tied; None for
            a head that cannot be tied. It takes what `tied_embedding` takes, and returns the
            embedding, and the options without those that the embedding has taken.
        if_tied: arguments with which a tied head is made, unless the options have others.

    Example:
        known = tfsoftmax.lm.head_options.known_options(tfsoftmax.TreeSoftmax)
        assert known.vocabulary == ("counts", "words")
        assert "huffman" in known.files["tree"]  # which is therefore not the path of a file
    """

    vocabulary: tuple[str, ...] = ()
    not_if_tied: tuple[str, ...] = ()
    files: dict[str, tuple[str, ...]] = {}
    machine: tuple[str, ...] = ()
    matrices: tuple[str, ...] = ("kernel_initializer",)
    embedding: Callable | None = None
    if_tied: dict = {}


class WordCounts(NamedTuple):
    """What `head_for` needs of a vocabulary, where there are counts alone.

    Attributes:
        counts: (V,) numbers.
        words: the words, for heads that are made of them.

    Example:
        from tfsoftmax.lm.head_options import WordCounts, head_for
        assert head_for(WordCounts([5, 3, 2]), tfsoftmax.TreeSoftmax).vocab_size == 3
    """

    counts: np.ndarray
    words: list[str] | None = None

    def __len__(self):
        return len(self.counts)


def known_options(head: type[heads.SoftmaxHead]) -> KnownOptions:
    """The row of `KNOWN` for a class of heads: its own, or that of the nearest of its bases.

    Args:
        head: the class.

    Returns:
        A `KnownOptions`; the one of its defaults for a class without a row, such as `SoftmaxHead`.
    """
    return next((KNOWN[base] for base in head.__mro__ if base in KNOWN), KnownOptions())


def known_of(name: str) -> KnownOptions:
    """`known_options` of the head of a name; those of `SoftmaxHead` for an unknown name."""
    return known_options(HEADS.get(name, heads.SoftmaxHead))


def head_for(
    vocabulary: Vocabulary | WordCounts, head: type[heads.SoftmaxHead], /, **options
) -> heads.SoftmaxHead:
    """A head for the words of a `Vocabulary`, with its counts and words where it takes them.

    Args:
        vocabulary: a `Vocabulary`, or `WordCounts`, of V words.
        head: class of the head.
        **options: arguments of the head, which override what the vocabulary has.

    Returns:
        The head.

    Raises:
        TypeError or ValueError: if the head refuses one of the options.

    Example:
        words, counts = ["the", "cat", "<unk>", "<eos>"], [9, 3, 2, 4]
        vocabulary = tfsoftmax.Vocabulary(words, counts)
        head = tfsoftmax.lm.head_options.head_for(vocabulary, tfsoftmax.NCE, num_samples=2)
        assert head.vocab_size == 4
    """
    known = known_options(head)
    left_out = () if options.get("tied_to") is None else known.not_if_tied
    taken = {name: getattr(vocabulary, name) for name in known.vocabulary if name not in left_out}
    return head(len(vocabulary), **{**taken, **options})


def tied_embedding(
    head: type[heads.SoftmaxHead], vocabulary: Vocabulary, units: int, options: dict, **kwargs
) -> tuple[keras.layers.Layer, dict] | None:
    """An input embedding for a head to be tied to, and the options left for the head.

    Args:
        head: class of the head.
        vocabulary: a `Vocabulary` of V words.
        units: D, units of the embedding and of the hidden state.
        options: arguments of the head. Besides them, `characters`, arguments of a
            `CharacterEmbedding`, says that the layer shall be one.
        **kwargs: arguments of the embedding.

    Returns:
        A Keras layer, and a dict of arguments for `head_for`; or None for a head that cannot be
        tied.

    Raises:
        TypeError or ValueError: if the embedding refuses one of its arguments.
    """
    known = known_options(head)
    if known.embedding is None:
        return None
    options = {**known.if_tied, **options}
    make = _table if "characters" in options else known.embedding
    embedding, options = make(head, vocabulary, units, options, **kwargs)
    return embedding, {**options, "tied_to": embedding}


def _table(head, vocabulary, units, options, **kwargs):
    """One table of V rows: whole, divided among replicas, or computed from characters."""
    if options.get("shard", False) and head.may_shard:
        return ShardedEmbedding(len(vocabulary), units, **kwargs), options
    if "characters" not in options:
        return Embedding(len(vocabulary), units, **kwargs), options
    options = dict(options)
    given, replaced = options.pop("characters"), {"embeddings_initializer"}
    kwargs = {name: kwargs[name] for name in kwargs.keys() - (replaced & given.keys())}
    return CharacterEmbedding(len(vocabulary), units, vocabulary.words, **given, **kwargs), options


def _adaptive(head, vocabulary, units, options, **kwargs):
    """An `AdaptiveEmbedding`, which takes the options of the layout that the head shares."""
    layout = {"counts": vocabulary.counts, **{k: options[k] for k in _LAYOUT if k in options}}
    if "embeddings_initializer" in kwargs:
        kwargs["projection_initializer"] = kwargs["embeddings_initializer"]
    embedding = AdaptiveEmbedding(len(vocabulary), units, **layout, **kwargs)
    others = {name: value for name, value in options.items() if name not in _LAYOUT}
    return embedding, {"cutoffs": embedding.bands.cutoffs, **others}


def _adaptive_by_tails(head, vocabulary, units, options, **kwargs):
    """An `AdaptiveEmbedding` of as many tails as the head has, which says so in `tails`."""
    if options.get("cutoffs", "auto") == "auto":
        cutoffs = automatic_cutoffs(
            vocabulary.counts, options.get("permutation"), units, options["projection_factor"],
            head.tails,
        )
        options = {**options, "cutoffs": cutoffs}
    return _adaptive(head, vocabulary, units, options, **kwargs)


_LAYOUT = ("cutoffs", "projection_factor", "counts", "permutation", "shares")  # what a tie shares
_COUNTS_AND_WORDS = ("counts", "words")
_MATRICES = ("kernel_initializer", "projection_initializer")
_ADAPTIVE = KnownOptions(("counts",), machine=("cutoffs",), matrices=_MATRICES, embedding=_adaptive)

# A class that is not here has the row of the nearest of its bases.
KNOWN = {
    TiedHead: KnownOptions(embedding=_table),
    heads.CharCnnSoftmax: KnownOptions(
        ("words",), not_if_tied=("words",), embedding=_table,
        if_tied={"characters": {}},
    ),
    heads.ShardedSoftmax: KnownOptions(embedding=_table, if_tied={"shard": True}),
    SamplingHead: KnownOptions(_COUNTS_AND_WORDS, files={"ngram": ()}, embedding=_table),
    heads.AdaptiveSoftmax: _ADAPTIVE,
    heads.TwoLevelSoftmax: _ADAPTIVE._replace(
        embedding=_adaptive_by_tails, if_tied={"projection_factor": None}
    ),
    heads.DifferentiatedSoftmax: KnownOptions(("counts",), matrices=_MATRICES),
    heads.Shortlist: KnownOptions(_COUNTS_AND_WORDS, files={"ngram": ()}),
    heads.TreeSoftmax: KnownOptions(_COUNTS_AND_WORDS, files={"tree": tree_builders.NAMES}),
    heads.NarySoftmax: KnownOptions(_COUNTS_AND_WORDS, files={"tree": tree_builders.NAMES}),
    heads.ClassSoftmax: KnownOptions(_COUNTS_AND_WORDS, files={"classes": classes.NAMES}),
    survey.ClassUnigram: KnownOptions(_COUNTS_AND_WORDS, files={"classes": classes.NAMES}),
    heads.SelfOrganisedSoftmax: KnownOptions(_COUNTS_AND_WORDS, files={"clusters": classes.NAMES}),
}
