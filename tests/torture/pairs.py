"""Wrong pairs of texts for `prepare_pairs`, and wrong texts for `summarise`."""

import gzip
import pathlib
import re
import tempfile

from command_server import in_child
from pairs_helper import make_pairs, small_pairs, train_pairs
from tfsoftmax.commands import program
from tfsoftmax.corpora.text import LINE_BYTES

from .cases import Case, failure

LIMIT_SECONDS = 60
SOUND = "".join(f"{source}\t{target}\n" for source, target in make_pairs(12, 9)).encode()
ZIPPED = gzip.compress(SOUND)
# Name, content and whether a command must refuse it: as pairs, or of which split; as texts. None if
# either is right.
FILES = {
    "empty": ("x.tsv", b"", True, True),
    "blank lines": ("x.tsv", b"\n \n\t\n", True, False),
    "one column": ("x.tsv", SOUND + b"w1 w2\n", True, False),
    "three columns": ("x.tsv", SOUND + b"w1\tw2\tw3\n", "train", False),
    "an empty source": ("x.tsv", SOUND + b"\tw1\n", False, False),
    "an empty target": ("x.tsv", SOUND + b"w1\t\n", False, False),
    "tabs and blanks": ("x.tsv", SOUND + b" \t \n", False, False),
    "no end of the last line": ("x.tsv", SOUND[:-1], False, False),
    "Windows line ends": ("x.tsv", SOUND.replace(b"\n", b"\r\n"), False, False),
    "a byte-order mark": ("x.tsv", b"\xef\xbb\xbf" + SOUND, False, False),
    "NUL bytes": ("x.tsv", SOUND + b"w1 \0\tw\0 w2\n", None, None),
    "only NUL bytes": ("x.tsv", bytes(5000), True, None),
    "control characters": ("x.tsv", SOUND + b"\x1b[31m\tw1\x07\n", None, None),
    "<eos>": ("x.tsv", SOUND + b"w1 <eos> w2\tw1\n", True, False),
    "<eos> in a target": ("x.tsv", SOUND + b"w1\tw2 <eos> w1\n", True, False),
    "<eos> at the end of a target": ("x.tsv", SOUND + b"w1\tw2 <eos>\n", False, False),
    "Latin-1": ("x.tsv", SOUND + "größe\tmaß\n".encode("latin-1"), True, True),
    "UTF-16": ("x.tsv", SOUND.decode().encode("utf-16"), True, True),
    "half a character": ("x.tsv", SOUND + b"w1\tw2 \xe2\x82", True, True),
    "a long word": ("x.tsv", SOUND + b"x" * 100_000 + b"\tw1\n", False, False),
    "a long source": ("x.tsv", SOUND + b"w1 " * 100_000 + b"\tw1\n", False, False),
    "a long target": ("x.tsv", SOUND + b"w1\t" + b"w1 " * 100_000 + b"\n", False, False),
    "a line without end": ("x.tsv", b"w" * (LINE_BYTES + 2), True, True),
    "compressed": ("x.tsv.gz", ZIPPED, False, False),
    "a cut gz": ("x.tsv.gz", ZIPPED[: len(ZIPPED) // 2], True, True),
    "a gz of a flipped bit": ("x.tsv.gz", ZIPPED[:-6] + b"?" + ZIPPED[-5:], True, True),
    "no gz": ("x.tsv.gz", SOUND, True, True),
    "a gz without its name": ("x.tsv", ZIPPED, True, True),
}


class Pairs:
    """A run on pairs, and the cases of files for it."""

    def __init__(self, _):
        self._place = tempfile.TemporaryDirectory()
        self.world = pathlib.Path(self._place.name)
        status, _, said = in_child(self._make, self.world)
        if status:
            raise RuntimeError(said)

    def _make(self):
        train_pairs(small_pairs(self.world, train=60), self.world / "run", max_steps=2)

    def cases(self):
        prepare = ["prepare_pairs", "--corpus=text", "--batch_size=4", "--min_count=1",
                   "--out={out}"]
        summarise = ["summarise", f"--run={self.world / 'run'}", "--beam=1", "--max_words=2"]
        for name, (file, content, as_pairs, as_texts) in FILES.items():
            for split in ("train", "valid"):
                other = "train" if split == "valid" else "valid"
                line = [*prepare, f"--{split}={{file}}", f"--{other}={self.world}/{other}.tsv"]
                refused = as_pairs == split if isinstance(as_pairs, str) else as_pairs
                yield self._case(f"prepare --{split}: {name}", line, file, content, refused, split)
            line = [*summarise, "--input={file}"]
            yield self._case(f"summarise --input: {name}", line, file, content, as_texts, "input")
        for name, lines in (("shorter", 3), ("longer", 70)):
            line = [*prepare, f"--train={self.world}/train.tsv", "--train_targets={file}",
                    f"--valid={self.world}/valid.tsv"]
            yield self._case(f"prepare --train_targets: {name}", line, "x.txt", b"w1\n" * lines,
                             True, "train_targets")

    def _case(self, name, line, file, content, refused, subject):
        def run():
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / file
                path.write_bytes(content)
                places = {"{file}": str(path), "{out}": f"{folder}/out"}
                arguments = line
                for place, value in places.items():
                    arguments = [each.replace(place, value) for each in arguments]
                status, said, errors = in_child(
                    lambda: program.main(arguments), self.world, seconds=LIMIT_SECONDS
                )
                if not status and arguments[0] == "summarise":
                    written, read = said.count("\n"), max(1, content.count(b"\n"))
                    if file.endswith(".tsv") and written not in (read, read + 1):
                        return f"silent: {written} summaries of {read} lines"
            return verdict(status, errors, refused)

        return Case(name, "pairs of texts", run, f"`{subject}`|{re.escape(file)}")


def verdict(status, errors, refused):
    """What a command made of a file: None if it took one that it may take."""
    if failed := failure(status, errors):
        return failed
    if status:
        said = [each for each in errors.splitlines() if each.startswith("error: ")]
        if refused is False:
            return f"obscure: what is right was refused: {errors[-200:]}"
        raise ValueError(said[-1] if said else errors)
    return "silent: it was taken" if refused else None
