"""Opens public corpora, after a quick check that their data is here or can be downloaded."""

import contextlib
import functools
import glob
import importlib.util
import os
import socket
import sys
import threading
import urllib.parse
import urllib.request

from tfsoftmax.corpora.catalogue import DATASETS, find_manual
from tfsoftmax.corpora.text import TextFiles
from tfsoftmax.support import textio
from tfsoftmax.support.arguments import expect, refusal

PROBE_SECONDS = 3.0
_BLOCK_LINES = 256  # few, since a line of text8 has 1,000 words


def check(name: str, manual_dir: str | None = None):
    """Finds out within seconds whether a public corpus can be opened.

    Args:
        name: a key of `DATASETS`.
        manual_dir: the folder in which to look first; by default that of tensorflow-datasets.

    Returns:
        A function that opens the corpus, for `Source.open`.

    Raises:
        FileNotFoundError: `manual_dir` does not exist.
        ConnectionError: the corpus must be downloaded, and its host does not answer.
        ImportError: tensorflow-datasets needs a package that is not installed.
    """
    dataset = DATASETS[name]
    if manual_dir is not None and not os.path.isdir(manual_dir):
        raise refusal("manual_dir", "be an existing folder", manual_dir, error=FileNotFoundError)
    folder = manual_dir or os.path.join(_data_dir(), "downloads", "manual")
    found = find_manual(dataset, folder)
    expect(found or _is_downloaded(name, dataset) or is_reachable(dataset.url), name,
           f"be downloaded, but {urllib.parse.urlsplit(dataset.url).hostname} does not answer. "
           f"Download {dataset.url} on another machine and put it, packed or unpacked, into a "
           "folder that `manual_dir` names",
           received=f"manual_dir={manual_dir!r}, and {folder} has no {dataset.archive}",
           error=ConnectionError)
    if name == "lm1b" and found and found["train"][1] is None:
        return lambda scratch, report: {
            split: TextFiles(_matches(path)) for split, (path, _) in found.items()
        }
    if importlib.util.find_spec("importlib_resources") is None:
        raise ImportError(
            f"`{name}` is read by tensorflow-datasets, which needs importlib_resources without "
            "declaring it: pip install importlib_resources dill"
        )
    return functools.partial(_open, name, folder)


def is_reachable(url: str, seconds: float = PROBE_SECONDS) -> bool:
    """Whether the host of an address, or the proxy to it, accepts a connection in time."""
    parts = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname):
        parts = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    answered = threading.Event()

    def connect():
        with contextlib.suppress(OSError):
            socket.create_connection((parts.hostname, port), timeout=seconds).close()
            answered.set()

    # This runs in a thread, since the lookup of a name has no timeout.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(seconds)
    return answered.is_set()


class _Lines:
    """The texts of a TFDS split as blocks of lines, which can be iterated several times."""

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

        # Only downloads are kept. The prepared form goes to the scratch folder.
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


def _matches(path):
    """The files that a path names whose last part may be a glob."""
    folder, pattern = os.path.split(path)
    return sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))


def _data_dir():
    return os.environ.get("TFDS_DATA_DIR") or os.path.expanduser("~/tensorflow_datasets")


def _is_downloaded(name, dataset):
    """Whether tensorflow-datasets has kept the download, or, for lm1b, its prepared form."""
    if name == "lm1b" and glob.glob(os.path.join(_data_dir(), "lm1b", "*", "dataset_info.json")):
        return True
    downloads = os.path.join(_data_dir(), "downloads")
    notes = [glob.glob(os.path.join(downloads, *below)) for below in (["*.INFO"], ["*", "*.INFO"])]
    for path in sum(notes, []):
        try:
            # tensorflow-datasets still asks for lm1b by http, and knows its SHA-256.
            urls = [url.partition("://")[2] for url in textio.read_json(path)["urls"]]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # a damaged note counts for nothing
        if dataset.url.partition("://")[2] in urls and os.path.exists(path[:-5]):
            return True
    return False
