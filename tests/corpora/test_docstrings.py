"""Facts about the docstrings corpus: what is prose, and how it is split."""

import inspect

import pytest

from tfsoftmax.corpora.docstrings import docstrings, open_docstrings
from tfsoftmax.corpora.prose import sentences
from tfsoftmax.pairs.docstring_pairs import open_docstring_pairs


def found(docstring):
    return sentences(inspect.cleandoc(docstring))


def test_google_docstring_yields_its_prose():
    assert found(
        """Computes the mean of the elements. It's fast.

        The result is a `Tensor` with the same dtype, e.g. `float32`. See
        https://example.org/page for more of the story.

        ```python
        x = tf.constant([1, 2])
        the code of this block is not prose
        ```

        Args:
          input_tensor: The tensor to reduce. Should have
            a numeric type.
          axis (int, optional): the dimension to reduce.

        Returns:
          The reduced tensor of the values.
        """
    ) == [
        "computes the mean of the elements",
        "the result is a tensor with the same dtype e.g float32",
        "the tensor to reduce",
        "should have a numeric type",
        "the dimension to reduce",
        "the reduced tensor of the values",
    ]


def test_numpy_docstring_yields_its_prose():
    assert found(
        """
        Return the *largest* of the values along an axis [1]_.

        Parameters
        ----------
        a, b : array_like
            Input data that is to be sorted::

                the = code in_a of the literal block

            It goes on after the block of code.

        Examples
        --------
        >>> the_result = of(a, call)
        the output of a doctest is not prose

        A sentence between the two examples.

        =====  ========================
        c      is a row of the table
        =====  ========================
        """
    ) == [
        "return the largest of the values along an axis",
        "input data that is to be sorted",
        "it goes on after the block of code",
        "a sentence between the two examples",
    ]


def test_sphinx_docstring_yields_its_prose():
    assert found(
        """Like :func:`~urllib.urlretrieve` in the standard library.

        .. versionadded:: 3.2
           The name of the file may be a path.

        .. code-block:: python

            this is the code of a block

        :param url: The URL of the file to be downloaded.
        :type url: str
        :returns: the name of a local file
        - a bullet is in the list
        1. a number is in the list
        """
    ) == [
        "like urllib.urlretrieve in the standard library",
        "the name of the file may be a path",
        "the url of the file to be downloaded",
        "the name of a local file",
        "a bullet is in the list",
        "a number is in the list",
    ]


@pytest.mark.parametrize("docstring, sentence", [
    ("A 4-D array of non-empty sub-arrays.", "a 4 d array of non empty sub arrays"),
    ("Returns the value(s) of the call() itself", "returns the values of the call itself"),
    ("See the [guide of TensorFlow](https://x.org/g) here", "see the guide of tensorflow here"),
    ("It doesn’t matter to the **user** at all!", "it doesn't matter to the user at all"),
    ("The `self._x` of a `tf.Module` is set here", "the self._x of a tf.module is set here"),
    ("That is 1.5 times the 32-bit value", "that is 1.5 times the 32 bit value"),
])
def test_markup_and_punctuation_go_and_words_stay(docstring, sentence):
    assert found(docstring) == [sentence]


@pytest.mark.parametrize("docstring", [
    "fn(x, y) -> the z of a",
    "x[i] = the sum of y[j] for all j",
    "float32 int8 uint8 the bfloat16",
    "D4RL datasets.",
    "usage: prog [-h] [--sum] the integers",
    "Die Größe des Feldes über alles",
    "+---+ a table of | the cells | in it |",
    "",
])
def test_what_is_no_english_sentence_is_dropped(docstring):
    assert found(docstring) == []


@pytest.fixture
def library(tmp_path):
    """A directory of Python files; one cannot be parsed, one is in a test folder."""
    verbs = ["reads", "writes", "sorts", "sums", "prints", "copies", "sends", "drops"]
    nouns = ["file", "list", "tensor", "string", "number", "folder", "record", "batch"]
    for verb in verbs:
        functions = [
            f'def {verb}_{noun}(x):\n    """It {verb} the {noun} of the caller.\n\n'
            '    This sentence is in every docstring.\n    """\n'
            for noun in nouns
        ]
        (tmp_path / f"{verb}.py").write_text("\n".join(functions))
    (tmp_path / "broken.py").write_text('"""It is not a part of the corpus."""\ndef (')
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "t.py").write_text('"""A test is not a part of the corpus."""')
    (tmp_path / "long.py").write_text(
        'TEXT = """\nThe long string that is assigned to a name is a part of it,\n'
        'as if it had been the docstring of something.\n"""\nraise SystemExit("never run")\n'
    )
    return tmp_path


def test_sentences_of_a_library_are_kept_once_and_never_run(library):
    words = []
    splits = open_docstrings(None, words.append, roots=[str(library)])
    lines = [line for blocks in splits.values() for block in blocks for line in block]
    assert len(lines) == len(set(lines)) == 8 * 8 + 2
    assert lines.count("this sentence is in every docstring") == 1
    assert "it sorts the batch of the caller" in lines
    assert sum("assigned to a name" in line for line in lines) == 1
    assert not any("corpus" in line for line in lines)
    assert sum(words) == sum(len(line.split()) for line in lines)


def test_splits_are_all_there_and_stay_when_files_are_added(library):
    before = open_docstrings(None, lambda words: None, roots=[str(library)])
    (library / "zzz.py").write_text('"""Another docstring is in the library now."""')
    after = open_docstrings(None, lambda words: None, roots=[str(library)])
    assert list(before) == ["train", "valid", "test"]
    for split in before:
        old, new = (set(sum(splits[split], [])) for splits in (before, after))
        assert old and old <= new


@pytest.mark.parametrize("source", [
    'def f(x): "It is the docstring of a function on one line."',
    '@decorator("""\n{long}\n""")\ndef f(x): pass',
    'def f(x="""\n{long}\n"""): pass',
    'x = {{0: [lambda y: (y, "\\n{long}\\n")]}}',
    'x = f("\\n"\n  "{long}" "\\n")',
    'match x:\n  case 1 if f("\\n{long}\\n"): pass',
])
def test_strings_are_found_wherever_they_stand(tmp_path, source):
    long = " ".join(["it has the length that a string which is no docstring has to have"] * 2)
    (tmp_path / "a.py").write_text(source.format(long=long))
    found = docstrings(str(tmp_path / "a.py"), others=True)
    assert found in ([long], ["It is the docstring of a function on one line."])


def test_too_few_docstrings_are_refused(tmp_path):
    (tmp_path / "a.py").write_text('"""This is the only docstring of it."""')
    with pytest.raises(ValueError, match="`docstrings` needs packages.*Received: 1 sentences"):
        open_docstrings(None, lambda words: None, roots=[str(tmp_path)])


def write_packages(folder, packages):
    """Writes a package of one file for each name, with a docstring for each pair."""
    for name, pairs in packages.items():
        functions = [
            f'def f{i}():\n    """{summary}.\n\n    {body}.\n    """\n'
            for i, (summary, body) in enumerate(pairs)
        ]
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("\n".join(functions))


def numbered(name, count):
    return [
        (f"return the value of the {name} at {i}", f"the {i} is a number in {name} that we have")
        for i in range(count)
    ]


def opened_pairs(folder):
    splits = open_docstring_pairs(None, lambda words: None, [str(folder)])
    return {split: [pair for block in blocks for pair in block] for split, blocks in splits.items()}


def test_pairs_are_the_first_sentence_and_the_rest(tmp_path):
    (tmp_path / "a.py").write_text('"""The first of the lines. The second of them.\n\n"""')
    write_packages(tmp_path, {f"p{i}": numbered(f"p{i}", 2) for i in range(60)})
    (tmp_path / "p7" / "more.py").write_text(
        'def f():\n    """Only a summary of the function."""\n'
        'def g():\n    """x\n\n    The body of it without a summary.\n    """\n'
        'def h():\n    """Return the sum of the values.\n\n    It is exact if they are.\n\n'
        '    Args:\n        x: the values that are summed up.\n    """\n'
    )
    splits = opened_pairs(tmp_path)
    pairs = [pair for rows in splits.values() for pair in rows]
    assert ("the second of them", ("the first of the lines",)) in pairs
    assert (
        "it is exact if they are the values that are summed up", ("return the sum of the values",)
    ) in pairs
    assert len(pairs) == 2 * 60 + 2


def test_no_package_no_source_and_no_target_is_in_two_splits(tmp_path):
    packages = {f"p{i}": numbered(f"p{i}", 3) for i in range(60)}
    for i, rows in enumerate(packages.values()):  # what all of them copied from somewhere
        rows.append(("return the copy of the target", f"it is a source that has the number {i}"))
        rows.append((f"return the target of the number {i}", "it is a copy of the source"))
        rows.append(("return both of the copies", "it is a copy of both of them"))
    packages["large"] = numbered("large", 40)
    write_packages(tmp_path, packages)
    splits = opened_pairs(tmp_path)
    owners = {
        split: {word for source, _ in rows for word in source.split() if word in packages}
        for split, rows in splits.items()
    }
    assert "large" in owners["train"]
    assert sum(map(len, owners.values())) == len(packages) == len(set().union(*owners.values()))
    for texts in (0, 1):
        found = [{str(pair[texts]) for pair in rows} for rows in splits.values()]
        assert sum(map(len, found)) == len(set().union(*found))
    assert all(len(rows) == len(set(rows)) for rows in splits.values())
    assert 8 <= len(splits["valid"]) <= 40 and 8 <= len(splits["test"]) <= 40


def test_too_few_packages_are_refused(tmp_path):
    write_packages(tmp_path, {"one": numbered("one", 5)})
    with pytest.raises(ValueError, match="`docstring_pairs` needs packages .* for the valid split"):
        opened_pairs(tmp_path)
