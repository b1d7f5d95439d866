"""Facts about the docstrings corpus: what is prose, and how it is split."""

import inspect

import pytest

from tfsoftmax.corpora.docstrings import open_docstrings
from tfsoftmax.corpora.prose import sentences


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


@pytest.mark.parametrize(
    "docstring, sentence",
    [
        ("A 4-D array of non-empty sub-arrays.", "a 4 d array of non empty sub arrays"),
        ("Returns the value(s) of the call() itself", "returns the values of the call itself"),
        ("See the [guide of TensorFlow](https://x.org/g) here", "see the guide of tensorflow here"),
        ("It doesn’t matter to the **user** at all!", "it doesn't matter to the user at all"),
        ("The `self._x` of a `tf.Module` is set here", "the self._x of a tf.module is set here"),
        ("That is 1.5 times the 32-bit value", "that is 1.5 times the 32 bit value"),
    ],
)
def test_markup_and_punctuation_go_and_words_stay(docstring, sentence):
    assert found(docstring) == [sentence]


@pytest.mark.parametrize(
    "docstring",
    [
        "fn(x, y) -> the z of a",
        "x[i] = the sum of y[j] for all j",
        "float32 int8 uint8 the bfloat16",
        "D4RL datasets.",
        "usage: prog [-h] [--sum] the integers",
        "Die Größe des Feldes über alles",
        "+---+ a table of | the cells | in it |",
        "",
    ],
)
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


def test_too_few_docstrings_are_refused(tmp_path):
    (tmp_path / "a.py").write_text('"""This is the only docstring of it."""')
    with pytest.raises(ValueError, match="`docstrings` needs packages.*Received: 1 sentences"):
        open_docstrings(None, lambda words: None, roots=[str(tmp_path)])
