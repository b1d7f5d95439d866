"""What a program that makes a head by its name has to know of the head's arguments."""

from typing import ClassVar

import keras

from tfsoftmax.vocabulary import Vocabulary


class NamedOptions:
    """Mixin for `SoftmaxHead`: which of its arguments a vocabulary, a file or the machine decides.

    Attributes:
        machine_options: names of options for which "auto" is decided by measuring the machine,
            when the head is built; a run keeps what was decided.
        vocabulary_options: names of the arguments that `for_vocabulary` fills with what the
            vocabulary has under the same names: `counts`, `words`.
        matrix_initializers: names of the arguments that are initializers of matrices.
        decided_options: names of arguments of its bases that the head does not take.
        file_options: names of the arguments that may be the path of a file, each with the strings
            that mean something else.

    Example:
        vocabulary = tfsoftmax.Vocabulary(["the", "cat", "<unk>", "<eos>"], [9, 3, 2, 4])
        head = tfsoftmax.HEADS["nce"].for_vocabulary(vocabulary, num_samples=2)
        assert head.vocab_size == 4
    """

    machine_options: ClassVar[tuple[str, ...]] = ()
    vocabulary_options: ClassVar[tuple[str, ...]] = ()
    matrix_initializers: ClassVar[tuple[str, ...]] = ("kernel_initializer",)
    decided_options: ClassVar[tuple[str, ...]] = ()
    file_options: ClassVar[dict[str, tuple[str, ...]]] = {}

    @classmethod
    def for_vocabulary(cls, vocabulary: Vocabulary, **options) -> keras.layers.Layer:
        """A head for the words of a `Vocabulary`, with its counts and words where it takes them.

        Args:
            vocabulary: a `Vocabulary` of V words.
            **options: arguments of the head, which override what the vocabulary has.
        """
        taken = {name: getattr(vocabulary, name) for name in cls.vocabulary_options}
        return cls(len(vocabulary), **{**taken, **options})

    @classmethod
    def tied_embedding(
        cls, vocabulary: Vocabulary, units: int, options: dict, **kwargs
    ) -> tuple[keras.layers.Layer, dict] | None:
        """An input embedding for the head to be tied to, and the options left for the head.

        Args:
            vocabulary: a `Vocabulary` of V words.
            units: D, units of the embedding and of the hidden state.
            options: arguments of the head. Besides them, `characters`, arguments of a
                `CharacterEmbedding`, says that the layer shall be one.
            **kwargs: arguments of the embedding.

        Returns:
            A Keras layer, and a dict of arguments for `for_vocabulary`; or None for a head that
            cannot be tied.
        """
        return None
