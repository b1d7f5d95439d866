"""Whether a public corpus can be had here and now, and its sentences."""

import contextlib
import functools
import glob
import importlib.util
import json
import os
import socket
import sys
import threading
import urllib.parse
import urllib.request

from tfsoftmax.corpora.catalogue import DATASETS, find_manual
from tfsoftmax.corpora.text import TextFiles

PROBE_SECONDS = 3.0
_BLOCK_LINES = 256  # a line of text8 has 1,000 words


def check(name, manual_dir=None):
    """Finds out, within seconds, whether a dataset can be opened.

    Args:
        name: key of `DATASETS`.
        manual_dir: folder looked at first; by default that of tensorflow-datasets.

    Returns:
        The function that opens it, as `Source.open`.

    Raises:
        FileNotFoundError: `manual_dir` does not exist.
        ConnectionError: it must be downloaded, and its host does not answer.
        ImportError: tensorflow-datasets lacks a package that it does not declare.
    """
    dataset = DATASETS[name]
    if manual_dir is not None and not os.path.isdir(manual_dir):
        raise FileNotFoundError(
            f"`manual_dir` must be an existing folder. Received: manual_dir={manual_dir!r}"
        )
    folder = manual_dir or os.path.join(_data_dir(), "downloads", "manual")
    found = find_manual(dataset, folder)
    if not (found or _is_downloaded(name, dataset) or is_reachable(dataset.url)):
        raise ConnectionError(
            f"`{name}` must be downloaded, but {urllib.parse.urlsplit(dataset.url).hostname} "
            f"does not answer. Get {dataset.url} on another machine and put it, packed or "
            f"unpacked, into a folder named by `manual_dir`. Received: manual_dir={manual_dir!r}, "
            f"where {folder} has no {dataset.archive}"
        )
    if name == "lm1b" and found and found["train"][1] is None:
        return lambda scratch, report: {
            split: TextFiles(sorted(glob.glob(path))) for split, (path, _) in found.items()
        }
    if importlib.util.find_spec("importlib_resources") is None:
        raise ImportError(
            f"`{name}` goes through tensorflow-datasets, which needs importlib_resources without "
            'declaring it: pip install importlib_resources (or this package\'s extra "tfds")'
        )
    return functools.partial(_open, name, folder)


def is_reachable(url, seconds=PROBE_SECONDS):
    """Whether the host of an address, or the proxy to it, accepts a connection in time."""
    parts = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname):
        parts = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    answered = threading.Event()

    def connect():
        try:
            socket.create_connection((parts.hostname, port), timeout=seconds).close()
            answered.set()
        except OSError:
            pass

    # In a thread, since looking up a name may take longer than any timeout.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    return answered.is_set()


class _Lines:
    """The texts of a TFDS split as blocks of lines; can be iterated again."""

    def __init__(self, dataset):
        self._dataset = dataset.batch(_BLOCK_LINES)

    def __iter__(self):
        for texts in self._dataset.as_numpy_iterator():
            yield [text.decode("utf-8") for text in texts["text"].tolist()]


def _open(name, manual_dir, scratch, report):
    import tensorflow_datasets as tfds

    if not sys.stderr.isatty():
        tfds.disable_progress_bar()
    downloads = os.path.join(_data_dir(), "downloads")
    if DATASETS[name].builder is None:
        builder = tfds.builder(name, data_dir=_data_dir())
    else:
        from tfsoftmax.corpora import builders

        # In the scratch folder, so that no stale copy is left: only downloads are kept.
        builder = getattr(builders, DATASETS[name].builder)(data_dir=os.path.join(scratch, "tfds"))
    with contextlib.redirect_stdout(sys.stderr):
        builder.download_and_prepare(
            download_dir=downloads,
            download_config=tfds.download.DownloadConfig(manual_dir=manual_dir),
        )
    config = tfds.ReadConfig(interleave_cycle_length=1)
    held_out = {"valid": "test"} if name == "lm1b" else {"valid": "validation", "test": "test"}
    names = {"train": "train"} | held_out
    return {
        split: _Lines(builder.as_dataset(split=theirs, read_config=config))
        for split, theirs in names.items()
        if theirs in builder.info.splits
    }


def _data_dir():
    return os.environ.get("TFDS_DATA_DIR") or os.path.expanduser("~/tensorflow_datasets")


def _is_downloaded(name, dataset):
    """Whether tensorflow-datasets keeps the download, or (lm1b) its prepared form."""
    if name == "lm1b" and glob.glob(os.path.join(_data_dir(), "lm1b", "*", "dataset_info.json")):
        return True
    downloads = os.path.join(_data_dir(), "downloads")
    notes = [glob.glob(os.path.join(downloads, *below)) for below in (["*.INFO"], ["*", "*.INFO"])]
    for path in sum(notes, []):
        with open(path, encoding="utf-8") as file:
            if dataset.url in json.load(file).get("urls", ()) and os.path.exists(path[:-5]):
                return True
    return False
