"""Builders of tensorflow-datasets for PTB, WikiText-2, WikiText-103 and text8.

Each builder looks for the archive, or for its unpacked files, in the manual folder, and downloads
the archive if they are not there. Each example has one feature, "text": a sentence, with words
between single blanks.
"""

import os

import tensorflow_datasets as tfds

from tfsoftmax.corpora.archives import check_digest, open_member
from tfsoftmax.corpora.catalogue import DATASETS, find_manual
from tfsoftmax.support.arguments import expect, refusal

_TFDS_NAMES = {"train": "train", "valid": "validation", "test": "test"}
_CHUNK_BYTES = 1 << 20


class _SentencesBuilder(tfds.core.GeneratorBasedBuilder):
    """Builds corpora that have a file for each split and a sentence on each line."""

    VERSION = tfds.core.Version("1.0.0")
    SKIP_REGISTRATION = True

    @property
    def source(self):
        """The row of the catalogue: where the archive is and which files it has."""
        return DATASETS[self.name]

    def _info(self):
        return tfds.core.DatasetInfo(
            builder=self,
            description=self.__doc__,
            features=tfds.features.FeaturesDict({"text": tfds.features.Text()}),
            homepage=self.source.url,
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        files = find_manual(self.source, self._manual_dir(dl_manager))
        if files is None:
            archive = os.fspath(dl_manager.download(self.source.url))
            files = {split: (archive, member) for split, member in self.source.members.items()}
        for archive in {path for path, member in files.values() if member is not None}:
            check_digest(archive, self.source.digest)
        for split, (path, member) in files.items():
            check_digest(path, self.source.digests.get(split), member)
        return {
            _TFDS_NAMES[split]: self._generate_examples(path, member, split)
            for split, (path, member) in files.items()
        }

    def _generate_examples(self, path, member, split):
        with open_member(path, member) as (file, size):
            try:
                for key, sentence in enumerate(self._sentences(file, size, split)):
                    yield key, {"text": sentence}
            except UnicodeDecodeError as error:
                raise refusal(
                    f"{member or path}:", "be UTF-8", received=f"{error}, in {path}"
                ) from error

    def _sentences(self, file, size, split):
        for line in file:
            if words := line.decode("utf-8").split():
                yield " ".join(words)

    def _manual_dir(self, dl_manager):
        try:
            return os.fspath(dl_manager.manual_dir)
        except AssertionError:  # the folder is absent or empty
            return ""


class Ptb(_SentencesBuilder):
    """Penn Treebank as Mikolov prepared it: 10,000 words, `<unk>` for others, `N` for numbers."""

    MANUAL_DOWNLOAD_INSTRUCTIONS = "simple-examples.tgz, or ptb.{train,valid,test}.txt"


class Wikitext2(_SentencesBuilder):
    """WikiText-2 (Merity et al. 2016). Each line is a paragraph or a heading."""

    MANUAL_DOWNLOAD_INSTRUCTIONS = "wikitext-2-v1.zip, or wiki.{train,valid,test}.tokens"


class Wikitext103(_SentencesBuilder):
    """WikiText-103 (Merity et al. 2016). Each line is a paragraph or a heading."""

    MANUAL_DOWNLOAD_INSTRUCTIONS = "wikitext-103-v1.zip, or wiki.{train,valid,test}.tokens"


class Text8(_SentencesBuilder):
    """text8 (Mahoney 2011), cut into sentences of 1,000 words.

    The last million characters are the validation split (Mikolov et al. 2014; Müller 2017,
    section 4.1.1).
    """

    MANUAL_DOWNLOAD_INSTRUCTIONS = "text8.zip, or text8"
    VALID_BYTES = 1_000_000
    SENTENCE_WORDS = 1000

    def _sentences(self, file, size, split):
        cut = size - self.VALID_BYTES
        expect(cut > 0, "text8:", f"be longer than its validation part, {self.VALID_BYTES} bytes",
               received=f"{size} bytes")
        first, last = (0, cut) if split == "train" else (cut, size)
        return fixed_sentences(byte_range(file, first, last), self.SENTENCE_WORDS)


def fixed_sentences(chunks, size):
    """Yields sentences of `size` words, the last one shorter, from chunks of running text.

    If the text begins or ends inside a word, the part of the word counts as a word, as in the
    original script.
    """
    words, rest = [], ""
    for chunk in chunks:
        *whole, rest = (rest + chunk.decode("utf-8")).replace("\n", " ").split(" ")
        words += filter(None, whole)
        while len(words) >= size:
            yield " ".join(words[:size])
            del words[:size]
    words += filter(None, [rest])
    if words:
        yield " ".join(words)


def byte_range(file, first, last):
    """Yields the bytes [first, last) of a file in chunks."""
    file.seek(first)
    for start in range(first, last, _CHUNK_BYTES):
        yield file.read(min(_CHUNK_BYTES, last - start))
