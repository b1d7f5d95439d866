"""The settings of pairs of texts: of their corpora, and of the model that writes summaries."""

import dataclasses

from tfsoftmax.corpora.config import CorpusConfig
from tfsoftmax.lm.config import ModelConfig

ATTENTIONS = ("luong", "bahdanau")


@dataclasses.dataclass(frozen=True)
class PairsConfig(CorpusConfig):
    """Which corpus of pairs of a source and a target to prepare, and how.

    Attributes:
        corpus: Corpus to prepare, one of
            - docstring_pairs: pairs from docstrings, whose first sentence is the target
            - text: your own files
            - gigaword: 3.8 million first sentences of news and their titles, in the files of Rush
              et al. in manual_dir, and DUC-2003 and DUC-2004 if they are there
        train: With corpus=text: files or globs of the sources, one per line, plain or compressed
            (.gz, .xz, .bz2); or, without train_targets, files with a source, a tab and its target
            per line.
        valid: With corpus=text: validation files or globs. A line may have several targets, all of
            which are references of ROUGE.
        train_targets: Files or globs of the targets of train, line by line.
        valid_targets: Files or globs of the targets of valid.
        test_targets: Files or globs of the targets of test.
        min_count: Words that occur less often become <unk>. By default 1, but 2 for
            docstring_pairs.
        max_vocab: Size of the vocabulary, <unk> and <eos> included. The most frequent words are
            kept. By default 69,000 for gigaword, and no limit for the others.
        vocabulary_from: The texts whose most frequent words are kept: targets, or both sources and
            targets. The counts are those of the targets in any case.
        batch_size: Number of pairs in a batch. They have similar lengths.
        max_source: Number of words after which longer sources are cut off.
        max_target: Number of words above which a pair is left out.
        manual_dir: Folder of the files of gigaword.

    Raises:
        ValueError: a field is out of its range.

    Example:
        from tfsoftmax.pairs.prepare import PairsConfig, prepare, summary
        with open("pairs.tsv", "w") as file:
            print("the cat sat on the mat today\\tcat on mat", file=file)
        corpus = prepare(PairsConfig("text", "data/pairs_of_mine", train="pairs.tsv"))
        print(summary(corpus))
    """

    CHOICES = {"vocabulary_from": ("targets", "both")}
    FILES = (*CorpusConfig.FILES, "train_targets", "valid_targets", "test_targets")
    LOWEST = CorpusConfig.LOWEST | {"batch_size": 1, "max_source": 1, "max_target": 1}

    corpus: str = "docstring_pairs"
    train_targets: tuple = ()
    valid_targets: tuple = ()
    test_targets: tuple = ()
    vocabulary_from: str = "targets"
    batch_size: int = 128
    max_source: int = 100
    max_target: int = 30


@dataclasses.dataclass(frozen=True)
class Seq2SeqConfig(ModelConfig):
    """The encoder, the decoder and the output layer (head) of a model of pairs.

    The encoder and the decoder have the same number of recurrent layers, of the same kind and size.
    `cell` must not be transformer. The other fields are those of `ModelConfig`.

    Attributes:
        attention: How the decoder attends to the words of the source, by a product (luong) or a
            sum (bahdanau) of projections.

    Raises:
        ValueError: a field is out of its range.

    Example:
        config = tfsoftmax.Seq2SeqConfig(attention="bahdanau", hidden_units=64)
        vocabulary = tfsoftmax.Vocabulary(["the", "cat", "<unk>", "<eos>"], [9, 3, 2, 4])
        model = tfsoftmax.encoder_decoder(config, vocabulary)
        logits = model((keras.ops.array([[0, 1, 3]]), keras.ops.array([[3, 1]])))
    """

    CHOICES = {**ModelConfig.CHOICES, "attention": ATTENTIONS}

    attention: str = "luong"
