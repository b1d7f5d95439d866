"""The settings of `prepare`, from which the flags of the command derive."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class PrepareConfig:
    """Which corpus to prepare, and how. The flags of `prepare` take their help from these lines.

    Attributes:
        corpus: Corpus to prepare, one of
            - docstrings: the English in the docstrings of the installed Python packages
            - text: your own files
            - text8: text8, 17 million words of Wikipedia
            - ptb: Penn Treebank, a million words of newspaper text
            - wikitext2: WikiText-2, 2 million words of Wikipedia
            - wikitext103: WikiText-103, 100 million words of Wikipedia
            - lm1b: One Billion Word Benchmark, 0.8 billion words of news
        out: Directory to make. It appears only when it is complete.
        train: With corpus=text: training files or globs, UTF-8, one sentence per line, plain or
            compressed (.gz, .xz, .bz2).
        valid: With corpus=text: validation files or globs.
        test: With corpus=text: test files or globs.
        min_count: Words that occur less often become <unk>. By default 1, but 2 for docstrings,
            10 for text8, 3 for lm1b.
        max_vocab: Size of the vocabulary, <unk> and <eos> included. The most frequent words are
            kept.
        order: Order of the sentences. With text, each stream reads one contiguous part of the text,
            so that the recurrent state is carried from sentence to sentence, as in the published
            results on Penn Treebank and WikiText. With shuffled, the sentences are shuffled once,
            as in the thesis. By default text for ptb and wikitext, shuffled for the others.
        streams: Number of parallel streams of sentences, the batch size.
        time_steps: Number of words of each stream in a batch.
        seed: Seed of the shuffling, if there is any. The same seed gives the same bytes.
        manual_dir: Folder in which to look for a public corpus, its archive or the unpacked
            files, before it is downloaded.
        overwrite: Replace a corpus that was prepared with other settings.

    Raises:
        ValueError: a field is out of its range.

    Example:
        from tfsoftmax.corpora.prepare import PrepareConfig, prepare, summary
        config = PrepareConfig("text", "data/mine", train="train.txt", valid="valid.txt")
        corpus = prepare(config)
        print(summary(corpus))
    """

    CHOICES = {"order": ("text", "shuffled")}

    corpus: str = "docstrings"
    out: str = ""
    train: tuple = ()
    valid: tuple = ()
    test: tuple = ()
    min_count: int | None = None
    max_vocab: int | None = None
    order: str | None = None
    streams: int = 128
    time_steps: int = 20
    seed: int = 1
    manual_dir: str | None = None
    overwrite: bool = False

    def __post_init__(self):
        for name in ("train", "valid", "test"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        lowest = {"min_count": 1, "max_vocab": 3, "streams": 1, "time_steps": 1, "seed": 0}
        for name, low in lowest.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise ValueError(f"`{name}` must be at least {low}. Received: {name}={value}")
        choices = self.CHOICES["order"]
        if self.order not in (None, *choices):
            raise ValueError(
                f"`order` must be one of {', '.join(choices)}. Received: order={self.order!r}"
            )
        if not self.out:
            raise ValueError(f"`out` must name a directory. Received: out={self.out!r}")
