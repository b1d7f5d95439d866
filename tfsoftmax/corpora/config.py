"""The settings of `prepare`, from which the flags of the command derive."""

import dataclasses
from typing import ClassVar

from tfsoftmax.support.arguments import check_at_least, expect, refusal

PIECE_MODELS = {"sentencepiece": "unigram", "sentencepiece_bpe": "bpe"}


@dataclasses.dataclass(frozen=True)
class CorpusConfig:
    """What the settings of all kinds of corpora have in common.

    The flags of the commands take their help from the attributes.

    Attributes:
        corpus: Corpus to prepare.
        out: Directory to make. It appears only when it is complete.
        train: With corpus=text: training files or globs.
        valid: With corpus=text: validation files or globs.
        test: With corpus=text: test files or globs.
        min_count: Words that occur less often become <unk>.
        max_vocab: Size of the vocabulary, <unk> and <eos> included. The most frequent words are
            kept.
        seed: Seed of the shuffling, if there is any. The same seed gives the same bytes.
        manual_dir: Folder in which to look for a public corpus, its archive or the unpacked
            files, before it is downloaded.
        overwrite: Replace a corpus that was prepared with other settings.

    Raises:
        ValueError: a field is out of its range.

    Example:
        from tfsoftmax.corpora.config import CorpusConfig
        print(CorpusConfig("text", "data/mine", train="train.txt").train)
    """

    CHOICES: ClassVar[dict] = {}
    FILES: ClassVar[tuple] = ("train", "valid", "test")
    REQUIRED: ClassVar[tuple] = ("out",)
    LOWEST: ClassVar[dict] = {"min_count": 1, "max_vocab": 3, "seed": 0}

    corpus: str = ""
    out: str = ""
    train: tuple = ()
    valid: tuple = ()
    test: tuple = ()
    min_count: int | None = None
    max_vocab: int | None = None
    seed: int = 1
    manual_dir: str | None = None
    overwrite: bool = False

    def __post_init__(self):
        for name in self.FILES:
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        for name, choices in self.CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise refusal(name, f"be one of {', '.join(choices)}", value)
        for name, low in self.LOWEST.items():
            check_at_least(low, **{name: getattr(self, name)})
        expect(self.out, "out", "name a directory", self.out)

    @property
    def kind(self) -> str:
        """The name of the corpus without what follows a colon."""
        return self.corpus.partition(":")[0]


@dataclasses.dataclass(frozen=True)
class PrepareConfig(CorpusConfig):
    """Which corpus of sentences to prepare, and how.

    Attributes:
        corpus: Corpus to prepare, one of
            - docstrings: the English in the docstrings of the installed Python packages
            - text: your own files
            - hf: as hf:NAME or hf:NAME:SUBSET, a data set that the package datasets loads by this
              name, or a folder of files or of a data set saved to disk (pip install datasets)
            - text8: text8, 17 million words of Wikipedia
            - ptb: Penn Treebank, a million words of newspaper text
            - wikitext2: WikiText-2, 2 million words of Wikipedia
            - wikitext103: WikiText-103, 100 million words of Wikipedia
            - lm1b: One Billion Word Benchmark, 0.8 billion words of news
        train: With corpus=text: training files or globs, UTF-8, one sentence per line, plain or
            compressed (.gz, .xz, .bz2); or one JSON object per line (.jsonl, .ndjson or .json, also
            compressed) or Parquet (.parquet), whose texts are in a field and may have several
            lines.
        field: Name of the field with the texts, in JSON and Parquet files and in corpora of hf.
        tokenizer: How sentences are split: words, at blanks; sentencepiece or sentencepiece_bpe,
            into max_vocab pieces of a unigram or BPE model that is trained on the training text; or
            a file, a model of sentencepiece or a JSON of tokenizers. Pieces need pip install
            sentencepiece tokenizers.
        min_count: Words that occur less often become <unk>. By default 1, but 2 for docstrings,
            10 for text8, 3 for lm1b.
        max_vocab: Size of the vocabulary, <unk> and <eos> included. The most frequent words are
            kept. By default there is no limit. With tokenizer=sentencepiece, the number of pieces,
            by default 8,000.
        order: Order of the sentences. With text, each stream reads one contiguous part of the text,
            so that the recurrent state is carried from sentence to sentence, as in the published
            results on Penn Treebank and WikiText. With shuffled, the sentences are shuffled once,
            as in the thesis. By default text for ptb and wikitext, shuffled for the others.
        streams: Number of parallel streams of sentences, the batch size.
        time_steps: Number of words of each stream in a batch.

    Raises:
        ValueError: a field is out of its range.

    Example:
        from tfsoftmax.corpora.prepare import PrepareConfig, prepare, summary
        config = PrepareConfig("text", "data/mine", train="train.txt", valid="valid.txt")
        corpus = prepare(config)
        print(summary(corpus))
    """

    CHOICES = {"order": ("text", "shuffled")}
    LOWEST = CorpusConfig.LOWEST | {"streams": 1, "time_steps": 1}

    corpus: str = "docstrings"
    field: str = "text"
    tokenizer: str = "words"
    order: str | None = None
    streams: int = 128
    time_steps: int = 20

    def __post_init__(self):
        super().__post_init__()
        for name in ("min_count", "max_vocab"):  # options of words that pieces do not have
            value, trained = getattr(self, name), self.piece_model and name == "max_vocab"
            expect(value is None or self.tokenizer == "words" or trained, name,
                   "not be given with this tokenizer, whose pieces are all kept",
                   received=f"{name}={value} with tokenizer={self.tokenizer!r}")
        if self.piece_model and self.seed >= 1 << 32:
            raise refusal("seed", "be below 2**32 for sentencepiece", self.seed)

    @property
    def piece_model(self) -> str | None:
        """The model of pieces to train, "unigram" or "bpe", or None."""
        return PIECE_MODELS.get(self.tokenizer)
