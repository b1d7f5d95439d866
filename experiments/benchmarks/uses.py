"""What users do besides training, and the least that others need for the same: search, commands."""

import dataclasses
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments.benchmarks.adaptive_evaluation import FEW
from experiments.benchmarks.cases import COMMAND, MEAN_WORDS, TOP_K
from experiments.benchmarks.programs import Program, built_head, parameters_of

K = 10
TOKENIZERS = """
import sys, itertools
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer.train([sys.argv[1]], trainers.WordLevelTrainer(
    vocab_size=10**9, min_frequency=1, special_tokens=["<unk>"], show_progress=False))
with open(sys.argv[1], encoding="utf-8") as lines, open(sys.argv[2], "wb") as out:
    while batch := list(itertools.islice(lines, 10_000)):
        for encoding in tokenizer.encode_batch(batch):
            out.write(memoryview(__import__("numpy").array(encoding.ids, "int32")))
"""
SENTENCEPIECE = """
import sys, numpy, sentencepiece
sentencepiece.SentencePieceTrainer.train(
    input=sys.argv[1], model_prefix=sys.argv[2], model_type="word", vocab_size=10**9,
    use_all_vocab=True, minloglevel=2, input_sentence_size=0)
model = sentencepiece.SentencePieceProcessor(model_file=sys.argv[2] + ".model")
with open(sys.argv[1], encoding="utf-8") as lines, open(sys.argv[2], "wb") as out:
    for line in lines:
        out.write(memoryview(numpy.array(model.encode(line), "int32")))
"""


def top_k(case, problem):
    """The ten best of V words for 256 positions: by our head, by bare operations or by faiss."""
    import tensorflow as tf

    head, _ = built_head(dataclasses.replace(case, options={}), problem)
    hidden = problem.hidden()[:FEW]
    by = case.options["by"]
    if by == "faiss":
        import faiss

        faiss.omp_set_num_threads(len(os.sched_getaffinity(0)))
        index = faiss.IndexFlatIP(problem.units)
        index.add(head.kernel.numpy())
        return Program({TOP_K: lambda: float(index.search(hidden, K)[0][0, 0])}, [], 0)
    given = tf.constant(hidden)
    if by == "operations":
        kernel = tf.constant(head.kernel.numpy())
        best = tf.function(
            lambda: tf.math.top_k(tf.matmul(given, kernel, transpose_b=True), K).values
        )
    else:
        best = tf.function(lambda: head.top_k(given, K)[1])
    return Program({TOP_K: lambda: float(best()[0, 0])}, [], parameters_of(head))


def command(case, problem):
    """A command in a process of its own, on a text or a corpus that is made up before."""
    for module in case.options.get("needs", ()):
        __import__(module)
    temporary = tempfile.TemporaryDirectory()
    folder = Path(temporary.name)
    text = folder / "train.txt"
    words = written(text, problem, case.options["sentences"])
    own = [sys.executable, "-m", "tfsoftmax_command"]
    valid = folder / "valid.txt"
    with open(text, encoding="utf-8") as lines:
        valid.write_text("".join(itertools.islice(lines, 100)), encoding="utf-8")
    prepare = [*own, "prepare", "--corpus=text", f"--train={text}", f"--valid={valid}"]
    if case.head == "train":
        subprocess.run([*prepare, f"--out={folder / 'data'}"], check=True, capture_output=True)
    run = {
        "prepare": [*prepare, f"--out={folder / 'out'}"],
        "tokenizers": [sys.executable, "-c", TOKENIZERS, str(text), str(folder / "out")],
        "sentencepiece": [sys.executable, "-c", SENTENCEPIECE, str(text), str(folder / "out")],
        "train": [*own, "train", f"--data={folder / 'data'}", f"--run={folder / 'out'}",
                  "--max_steps=1", "--hidden_units=64", "--embedding_units=64"],
        "import": [sys.executable, "-c", "import keras, tensorflow; print(tensorflow.ones(1) + 1)"],
    }[case.head]

    def once():
        shutil.rmtree(Path(temporary.name) / "out", ignore_errors=True)
        subprocess.run(run, check=True, capture_output=True)
        return float(words)

    return Program({COMMAND: once}, [], 0, {"words": words})


def written(path, problem, sentences):
    """Writes sentences of words by Zipf's law, one a line; returns how many words they have."""
    import numpy as np

    rng = np.random.default_rng(4)
    lengths = rng.geometric(1 / MEAN_WORDS, sentences)
    ranks = (problem.vocab_size ** rng.random(lengths.sum())).astype(np.int64) - 1
    named = np.array(problem.words())[ranks]
    with open(path, "w", encoding="utf-8") as file:
        for words in np.split(named, np.cumsum(lengths)[:-1]):
            file.write(" ".join(words) + "\n")
    return int(lengths.sum())
