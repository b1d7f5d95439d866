"""What users do besides training, and the least that others need for the same: search, commands."""

import functools
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import types
from pathlib import Path

from experiments.benchmarks.cases import Case, options_of, ways_of
from experiments.benchmarks.problem import sentences_by_zipf
from experiments.benchmarks.programs import Program, built_head, parameters_of
from experiments.benchmarks.runtimes import RUNTIMES
from tfsoftmax.lm.head_names import HEAD_NAMES

SPREAD = 2.0  # nats
COMMAND = "command"
TOP_KS = types.MappingProxyType({  # calls of generation: greedy, a beam of 8, the 40 best, and many
    f"top_k of {positions}, k = {k}": (positions, k)
    for positions, k in ((1, 2), (64, 2), (64, 10), (64, 41), (256, 10))
})
BARE_TOP_K, FAISS = "tf.matmul and tf.math.top_k", "faiss IndexFlatIP"
ALL_LOG_PROBS = "the best of all log-probabilities"
QUERIES, BEST = 512, 20  # of searches that exclude
EXCLUDED = types.MappingProxyType({  # searches, and how many words of each query they leave out
    f"20 best of 512, without {count:,}": count for count in (0, 10, 100, 850, 5000)
})
OF_SCORES, OF_LOG_PROBS = "-inf in the scores", "-inf in the log-probabilities"
SERVED = types.MappingProxyType({  # calls in other runtimes, and their positions
    f"10 best of {positions}": positions for positions in (1, 32)
})
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


def suite(vocab_size):
    """The likeliest words, texts and commands, against the least that others need for the same."""
    likeliest = functools.partial(
        Case, kind="top_k", head="full", group="FullSoftmax", measures=tuple(TOP_KS))
    search = [
        likeliest("FullSoftmax", peers=(BARE_TOP_K, FAISS)),
        *(likeliest(way, options={"way": way}) for way in (BARE_TOP_K, FAISS)),
    ]
    for head in ("adaptive", "tree"):
        search += ways_of(HEAD_NAMES[head][0], "top_k", head, (ALL_LOG_PROBS,), tuple(TOP_KS))
    search += [
        Case(f"LSTM and {HEAD_NAMES[head][0]}", "texts", head, options_of(head, vocab_size), does,
             measures=(does,))
        for does, head in (("score", "adaptive"), ("rescore", "adaptive"), ("generate", "full"))
    ]
    text, short = {"sentences": 120_000}, {"sentences": 2_000}
    others = ("tokenizers", "sentencepiece")
    return search + [
        _command("tfsoftmax prepare", "prepare", text, "prepare", others),
        *(_command(name, name, {**text, "needs": (name,)}, "prepare") for name in others),
        _command("tfsoftmax train, one step and its validation", "train", short, "train",
                 ("import of TensorFlow and Keras",)),
        _command("import of TensorFlow and Keras", "import", short, "train"),
    ]


def _command(name, head, options, group, peers=()):
    return Case(name, "command", head, options, group, peers, measures=(COMMAND,))


def excluding_suite(_):
    """The best words without some of each query, against bare operations that leave them out."""
    return ways_of("FullSoftmax", "excluding", "full", (OF_SCORES, OF_LOG_PROBS), tuple(EXCLUDED))


def serving_suite(_):
    """The likeliest words by `predict_on_batch`, against other runtimes that load the model."""
    return [
        case for head in ("full", "adaptive", "tree")
        for case in ways_of(HEAD_NAMES[head][0], "served", head, RUNTIMES, tuple(SERVED))
    ]


def top_k(case, problem):
    """The best of V words: by a head, by bare operations, by faiss, or of all log-probabilities."""
    import tensorflow as tf

    head = likeliest_head(case.head, problem)
    way, functions = case.options.get("way"), {}
    if way == FAISS:
        import faiss

        faiss.omp_set_num_threads(len(os.sched_getaffinity(0)))
        index = faiss.IndexFlatIP(problem.units)
        index.add(head.kernel.numpy())
    kernel = tf.constant(head.kernel.numpy()) if way == BARE_TOP_K else None
    ways = {
        None: lambda hidden, k: head.top_k(hidden, k)[1],
        ALL_LOG_PROBS: lambda hidden, k: tf.math.top_k(head.log_probs(hidden), k).values,
        BARE_TOP_K: lambda hidden, k: tf.math.top_k(
            tf.matmul(hidden, kernel, transpose_b=True), k).values,
    }
    for measure in case.measures:
        positions, k = TOP_KS[measure]
        hidden = problem.hidden()[:positions]
        hidden /= hidden.std()
        if way == FAISS:
            functions[measure] = lambda h=hidden, k=k: float(index.search(h, k)[0][0, 0])
        else:
            best, given = tf.function(ways[way]), tf.constant(hidden)
            functions[measure] = lambda f=best, h=given, k=k: float(f(h, k)[0, 0])
    return Program(functions, [], parameters_of(head), memory=False)


def excluding(case, problem):
    """The best words of queries without some of each, by a head or by bare operations."""
    import numpy as np
    import tensorflow as tf

    head = likeliest_head(case.head, problem)
    hidden, rng = tf.constant(problem.hidden()[:QUERIES]), np.random.default_rng(0)
    kernel, bias, functions = head.kernel.value, head.bias.value, {}
    of_scores = {OF_SCORES: tf.identity, OF_LOG_PROBS: tf.nn.log_softmax, None: None}[
        case.options.get("way")]
    for measure, count in EXCLUDED.items():
        excluded = rng.integers(0, problem.vocab_size, (len(hidden), count), np.int32)
        rows = np.arange(len(hidden)).repeat(count).reshape(excluded.shape)
        places, nothing = np.stack([rows, excluded], 2), np.full(excluded.shape, -np.inf, "float32")

        def best(excluded=excluded, places=places, nothing=nothing):
            if of_scores is None:
                return head.top_k(hidden, BEST, exclude=excluded)[0]
            scores = of_scores(tf.matmul(hidden, kernel, transpose_b=True) + bias)
            return tf.math.top_k(tf.tensor_scatter_nd_update(scores, places, nothing), BEST).indices

        compiled = tf.function(best)
        functions[measure] = lambda f=compiled: float(f()[0, -1])
    return Program(functions, [], parameters_of(head))


def served(case, problem):
    """The ten best words by `predict_on_batch`, or by another runtime that finds the same."""
    import keras
    import numpy as np

    from tfsoftmax.heads.inference import TopK

    head, functions = likeliest_head(case.head, problem), {}
    inputs = keras.Input((problem.units,))
    model = keras.Model([inputs], TopK(head, 10)(inputs))
    for measure, positions in SERVED.items():
        given = [problem.hidden()[:positions] / 0.3]
        run, wanted = model.predict_on_batch, model.predict_on_batch(given)[1]
        files = tempfile.TemporaryDirectory()
        if "way" in case.options:
            run = RUNTIMES[case.options["way"]](model, given, Path(files.name))

        def log_probs(run=run, given=given, files=files):  # the files stay as long as this does
            (found,) = [x for x in run(given) if x.dtype == np.float32]
            return found

        np.testing.assert_allclose(log_probs(), wanted, atol=1e-3)
        functions[measure] = lambda f=log_probs: float(f()[0, 0])
    return Program(functions, [], parameters_of(head))


def likeliest_head(name, problem):
    """A head with the distribution of a trained one.

    Its biases are those of Zipf's law, and the log-probability of a word differs between contexts
    by about SPREAD nats. Hence a search finds most of the likeliest words early.
    """
    import numpy as np

    options = options_of(name, problem.vocab_size)
    if options:
        options["use_bias"] = True
    head, _ = built_head(Case(name, "head", name, options), problem)
    counts = problem.counts()
    rng = np.random.default_rng(0)

    def draw(weight, scale, width):
        weight.assign(scale / width**0.5 * rng.standard_normal(weight.shape, np.float32))

    if hasattr(head, "bands"):
        parts = np.split(counts, head.bands.cutoffs)
        head.biases[0].assign(np.log([*parts[0], *(part.sum() for part in parts[1:])]))
        for bias, part in zip(head.biases[1:], parts[1:]):
            bias.assign(np.log(part))
        for projection in head.projections:
            draw(projection, 1.0, projection.shape[0])
        for kernel in head.kernels:
            draw(kernel, SPREAD, kernel.shape[1])
        return head
    scale = SPREAD
    if hasattr(head, "tree"):
        left, right = _masses(head.tree.children(), counts)
        head.bias.assign(np.log(left) - np.log(right))
        scale /= np.average(head.tree.depths, weights=counts) ** 0.5
    else:
        head.bias.assign(np.log(counts))
    draw(head.kernel, scale, head.kernel.shape[1])
    return head


def _masses(children, counts):
    """The counts below the two edges of each node; a node comes before the nodes below it."""
    import numpy as np

    masses = np.zeros(children.shape)
    for node in reversed(range(len(children))):
        for edge, child in enumerate(children[node]):
            masses[node, edge] = masses[child].sum() if child >= 0 else counts[-1 - child]
    return masses.T


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

    reads_all = case.head not in ("train", "import")
    facts = {"words": words} if reads_all else {}
    return Program({COMMAND: once}, [], 0, facts, memory=False)


def written(path, problem, sentences):
    """Writes sentences of words by Zipf's law, one a line; returns how many words they have."""
    words, found = problem.words(), sentences_by_zipf(problem.vocab_size, sentences, 4)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(" ".join(words[i] for i in ids) + "\n" for ids in found)
    return sum(map(len, found))
