"""The settings of `prepare`, from which the flags of the command derive."""

import dataclasses

from tfsoftmax.support.arguments import check_at_least

TASKS = ("sentences", "pairs")
PIECE_MODELS = {"sentencepiece": "unigram", "sentencepiece_bpe": "bpe"}


@dataclasses.dataclass(frozen=True)
class PrepareConfig:
    """Which corpus to prepare, and how. The flags of `prepare` take their help from these lines.

    Attributes:
        corpus: Corpus to prepare, one of
            - docstrings: the English in the docstrings of the installed Python packages
            - text: your own files, of sentences or of pairs
            - hf: as hf:NAME or hf:NAME:SUBSET, a data set that the package datasets loads by this
              name, or a folder of files or of a data set saved to disk (pip install
              'tfsoftmax[hf]')
            - text8: text8, 17 million words of Wikipedia
            - ptb: Penn Treebank, a million words of newspaper text
            - wikitext2: WikiText-2, 2 million words of Wikipedia
            - wikitext103: WikiText-103, 100 million words of Wikipedia
            - lm1b: One Billion Word Benchmark, 0.8 billion words of news
            - docstring_pairs: pairs from docstrings, whose first sentence is the target
            - gigaword: pairs of 3.8 million first sentences of news and their titles, in the files
              of Rush et al. in manual_dir, and DUC-2003 and DUC-2004 if they are there
        out: Directory to make. It appears only when it is complete.
        train: With corpus=text: training files or globs, UTF-8, one sentence per line, plain or
            compressed (.gz, .xz, .bz2); or JSON objects in lines (.jsonl, .ndjson or .json, also
            compressed) or Parquet (.parquet), whose texts are in a field and may have several
            lines. With task=pairs: the sources, one per line, or, without train_targets, a source
            and its target per line with a tab between them.
        valid: With corpus=text: validation files or globs. With task=pairs, a line may have several
            targets, all of which are references of ROUGE.
        test: With corpus=text: test files or globs.
        field: Name of the texts in files of JSON or Parquet and in corpora of hf.
        task: What the corpus holds: sentences, for language models; or pairs of a source and a
            target, such as an article and its title, for models that write the second. By default
            corpus is docstrings or docstring_pairs.
        train_targets: With task=pairs: files or globs of the targets of train, line by line.
        valid_targets: With task=pairs: files or globs of the targets of valid.
        test_targets: With task=pairs: files or globs of the targets of test.
        tokenizer: How sentences are split: words, at blanks; sentencepiece or sentencepiece_bpe,
            into max_vocab pieces of a unigram or BPE model that is trained on the training text; or
            a file, a model of sentencepiece or a JSON of tokenizers. Pieces need pip install
            'tfsoftmax[subword]'.
        min_count: Words that occur less often become <unk>. By default 1, but 2 for docstrings,
            2 for docstring_pairs, 10 for text8, 3 for lm1b.
        max_vocab: Size of the vocabulary, <unk> and <eos> included. The most frequent words are
            kept. By default 69,000 for gigaword, and no limit for the others. With
            tokenizer=sentencepiece, the number of pieces, by default 8,000.
        vocabulary_from: With task=pairs: the texts whose most frequent words are kept: targets, or
            both sources and targets. The counts are those of the targets in any case.
        order: Order of the sentences. With text, each stream reads one contiguous part of the text,
            so that the recurrent state is carried from sentence to sentence, as in the published
            results on Penn Treebank and WikiText. With shuffled, the sentences are shuffled once,
            as in the thesis. By default text for ptb and wikitext, shuffled for the others.
        streams: Number of parallel streams of sentences, the batch size.
        time_steps: Number of words of each stream in a batch.
        batch_size: With task=pairs: number of pairs in a batch. They have similar lengths.
        max_source: With task=pairs: number of words after which longer sources are cut off.
        max_target: With task=pairs: number of words above which a pair is left out.
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

    CHOICES = {
        "task": TASKS, "order": ("text", "shuffled"), "vocabulary_from": ("targets", "both"),
    }
    FILES = ("train", "valid", "test", "train_targets", "valid_targets", "test_targets")
    OF_TASK = {
        "sentences": ("order", "streams", "time_steps", "tokenizer", "field"),
        "pairs": ("train_targets", "valid_targets", "test_targets", "vocabulary_from",
                  "batch_size", "max_source", "max_target"),
    }

    corpus: str | None = None
    out: str = ""
    train: tuple = ()
    valid: tuple = ()
    test: tuple = ()
    field: str = "text"
    task: str = "sentences"
    train_targets: tuple = ()
    valid_targets: tuple = ()
    test_targets: tuple = ()
    tokenizer: str = "words"
    min_count: int | None = None
    max_vocab: int | None = None
    vocabulary_from: str = "targets"
    order: str | None = None
    streams: int = 128
    time_steps: int = 20
    batch_size: int = 128
    max_source: int = 100
    max_target: int = 30
    seed: int = 1
    manual_dir: str | None = None
    overwrite: bool = False

    def __post_init__(self):
        for name in self.FILES:
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        for name, choices in self.CHOICES.items():
            value = getattr(self, name)
            if value not in choices and not (name == "order" and value is None):
                raise ValueError(
                    f"`{name}` must be one of {', '.join(choices)}. Received: {name}={value!r}"
                )
        if self.corpus is None:
            default = {"sentences": "docstrings", "pairs": "docstring_pairs"}[self.task]
            object.__setattr__(self, "corpus", default)
        lowest = {
            "min_count": 1, "max_vocab": 3, "streams": 1, "time_steps": 1, "seed": 0,
            "batch_size": 1, "max_source": 1, "max_target": 1,
        }
        for name, low in lowest.items():
            check_at_least(low, **{name: getattr(self, name)})
        self._check_task()
        self._check_tokenizer()
        if not self.out:
            raise ValueError(f"`out` must name a directory. Received: out={self.out!r}")

    @property
    def kind(self) -> str:
        """The name of the corpus without what follows a colon."""
        return self.corpus.partition(":")[0]

    @property
    def piece_model(self) -> str | None:
        """The model of pieces to train, "unigram" or "bpe", or None."""
        return PIECE_MODELS.get(self.tokenizer)

    def _check_tokenizer(self):
        """Refuses options of words that pieces do not have."""
        for name in ("min_count", "max_vocab"):
            value, trained = getattr(self, name), self.piece_model and name == "max_vocab"
            if value is not None and self.tokenizer != "words" and not trained:
                raise ValueError(
                    f"`{name}` must not be given with this tokenizer, whose pieces are all kept. "
                    f"Received: {name}={value} with tokenizer={self.tokenizer!r}"
                )
        if self.piece_model and self.seed >= 1 << 32:
            raise ValueError(
                f"`seed` must be below 2**32 for sentencepiece. Received: seed={self.seed}"
            )

    def _check_task(self):
        """Refuses options of the other task, which would have no effect."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for task, names in self.OF_TASK.items():
            for name in names:
                value = getattr(self, name)
                if task != self.task and value != defaults[name]:
                    raise ValueError(
                        f"`{name}` may be given with task={task!r} only. "
                        f"Received: {name}={value!r} with task={self.task!r}"
                    )
