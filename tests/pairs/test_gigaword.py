"""The files of Rush et al. 2015: Gigaword and DUC."""

import gzip

import pytest
from pair_files import BATCH, as_words, make_pairs, read_back

from tfsoftmax.pairs.config import PairsConfig
from tfsoftmax.pairs.prepare import prepare
from tfsoftmax.pairs.texts import texts


def write_gigaword(folder):
    """Writes the layout of Rush et al. with a few lines; returns the pairs of each split."""
    rows = {split: make_pairs(count, seed) for seed, (split, count) in enumerate(
        {"train": 50, "valid": 20, "test": 15, "duc2004": 8}.items()
    )}
    names = {
        "train": ("train/train.article.txt.gz", "train/train.title.txt.gz"),
        "valid": ("train/valid.article.filter.txt", "train/valid.title.filter.txt"),
        "test": ("Giga/input.txt", "Giga/task1_ref0.txt"),
        "duc2004": ("DUC2004/input.txt", "DUC2004/task1_ref0.txt"),
    }
    for split, files in names.items():
        for column, name in enumerate(files):
            path = folder / name
            path.parent.mkdir(exist_ok=True, parents=True)
            text = "".join(f"{row[column]}\n" for row in rows[split]).encode()
            path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    for i in (1, 2, 3):
        (folder / f"DUC2004/task1_ref{i}.txt").write_text(f"cat {i}\n" * 7 + "\n")
    return rows


def test_gigaword_is_read_from_its_folder_with_the_references_of_duc(tmp_path):
    rows = write_gigaword(tmp_path / "sumdata")
    settings = PairsConfig(
        corpus="gigaword", out=str(tmp_path / "out"), batch_size=BATCH,
        manual_dir=str(tmp_path / "sumdata"),
    )
    corpus = prepare(settings, progress=False)
    assert list(corpus.splits) == ["train", "valid", "test", "duc2004"]
    for split in ("train", "valid", "test"):
        assert sorted(read_back(corpus, split)) == sorted(as_words(rows[split], corpus.vocabulary))
    first, *_, last = texts(corpus, "duc2004")
    assert first == (rows["duc2004"][0][0], (rows["duc2004"][0][1], "cat 1", "cat 2", "cat 3"))
    assert last[1] == (rows["duc2004"][-1][1],)
    assert corpus.split("duc2004").sentences == 4 * 8 - 3
    assert corpus.settings["max_vocab"] == 69_000
    assert prepare(settings, progress=False).vocabulary.sha256 == corpus.vocabulary.sha256


@pytest.mark.parametrize("change, message", [
    (lambda folder: (folder / "Giga/task1_ref0.txt").unlink(), "Giga/input.txt and"),
    (lambda folder: (folder / "train/train.title.txt.gz").unlink(), "one train.article.txt"),
    (lambda folder: (folder / "train.article.txt").touch(), "one train.article.txt"),
    (lambda folder: (folder / "DUC2004/task1_ref1.txt.gz").touch(), "one DUC2004/input.txt"),
    (lambda folder: (folder / "train/valid.title.filter.txt.xz").touch(), "one valid.article"),
    (lambda folder: (folder / "train/valid.article.filter.txt").unlink(), "valid.article"),
    (lambda folder: folder.rename(folder.parent / "other"), "folder with the files"),
])
def test_folders_that_lack_files_of_gigaword_are_refused(tmp_path, change, message):
    folder = tmp_path / "sumdata"
    write_gigaword(folder)
    change(folder)
    settings = PairsConfig(corpus="gigaword", out=str(tmp_path / "out"), manual_dir=str(folder))
    with pytest.raises((ValueError, FileNotFoundError), match=f"^`manual_dir` must .*{message}"):
        prepare(settings, progress=False)
