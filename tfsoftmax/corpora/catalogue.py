"""The catalogue of public corpora: where each comes from and how it is read."""

import dataclasses
import glob
import os

_SPLITS = ("train", "valid", "test")
_LM1B = "1-billion-word-language-modeling-benchmark-r13output"


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A public corpus.

    Attributes:
        url: the address of the archive.
        members: dictionary from a split to its file in the archive, which may be a glob.
        min_count: by default, words that occur less often become `<unk>`.
        builder: the name of the class in `tfsoftmax.corpora.builders` that reads the archive;
            None if tensorflow-datasets has a builder under the name of the corpus.
        order: by default, the order of the sentences, a name in `tfsoftmax.corpora.orders.ORDERS`.
        digest: `algorithm:hexadecimal digits` of the archive; None if tensorflow-datasets knows it.
        digests: dictionary from a split to the digest of its file. All digests are the strongest
            that others have published.

    Example:
        from tfsoftmax.corpora.catalogue import DATASETS
        text8 = DATASETS["text8"]
        print(text8.url, text8.archive)
        print(text8.members, text8.min_count)
    """

    url: str
    members: dict
    min_count: int = 1
    builder: str | None = None
    order: str = "shuffled"
    digest: str | None = None
    digests: dict = dataclasses.field(default_factory=dict)

    @property
    def archive(self):
        """The file name of the archive."""
        return self.url.rsplit("/", 1)[1]


def _wikitext(name, builder, digest):
    # This is the first author's host. The original address, on S3, has refused access since 2024.
    url = f"https://wikitext.smerity.com/{name}-v1.zip"
    members = {split: f"{name}/wiki.{split}.tokens" for split in _SPLITS}
    # Only one other project has published digests of the files in it.
    return Dataset(url, members, 1, builder, "text", digest)


DATASETS = {
    "text8": Dataset(
        "https://mattmahoney.net/dc/text8.zip", {"train": "text8", "valid": "text8"},
        min_count=10, builder="Text8",
        digest="sha256:a6640522afe85d1963ad56c05b0ede0a0c000dddc9671758a6cc09b7a38e5232",
        digests={"train": "md5:3bea1919949baf155f99411df5fada7e"},  # valid is in the same file
    ),
    "ptb": Dataset(
        "https://www.fit.vutbr.cz/~imikolov/rnnlm/simple-examples.tgz",
        {s: f"simple-examples/data/ptb.{s}.txt" for s in _SPLITS}, builder="Ptb",
        order="text",
        digest="md5:30177ea32e27c525793142b6bf2c8e2d",  # all that others have published
        digests={
            "train": "sha256:fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
            "valid": "sha256:c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
            "test": "sha256:dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
        },
    ),
    "wikitext2": _wikitext(
        "wikitext-2", "Wikitext2",
        "sha256:92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
    ),
    "wikitext103": _wikitext(
        "wikitext-103", "Wikitext103",
        "sha256:242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
    ),
    "lm1b": Dataset(
        f"https://www.statmt.org/lm-benchmark/{_LM1B}.tar.gz",
        {
            "train": f"{_LM1B}/training-monolingual.tokenized.shuffled/news.en-*",
            "valid": f"{_LM1B}/heldout-monolingual.tokenized.shuffled/news.en.heldout-*",
        },
        min_count=3,
    ),
}

# The defaults of `min_count` and `order` for all corpora that `prepare` reads.
MIN_COUNTS = {"docstrings": 2, "text": 1, "hf": 1} | {n: d.min_count for n, d in DATASETS.items()}
MAX_PIECES = 8_000  # what sentencepiece makes by default
ORDERS = {n: "shuffled" for n in ("docstrings", "text", "hf")} | {
    n: d.order for n, d in DATASETS.items()
}


def find_manual(dataset: Dataset, folder: str) -> dict[str, tuple[str, str | None]] | None:
    """Finds the splits of a corpus in a folder, as an archive or unpacked.

    Returns:
        Dictionary from split to (path, member), where member is the file in the archive at path,
        or None if path is itself the unpacked file; None if not all splits are there.
    """
    unpacked = {}
    for split, member in dataset.members.items():
        for candidate in (member, os.path.join(*member.split("/")[-2:]), os.path.basename(member)):
            if split not in unpacked and glob.glob(os.path.join(glob.escape(folder), candidate)):
                unpacked[split] = (os.path.join(folder, candidate), None)
    if len(unpacked) == len(dataset.members):
        return unpacked
    archive = os.path.join(folder, dataset.archive)
    if os.path.isfile(archive):
        return {split: (archive, member) for split, member in dataset.members.items()}
    return None
