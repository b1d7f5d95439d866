"""Trees: their shape, Huffman's optimality against an independent computation, codes and files."""

import heapq
import json

import numpy as np
import pytest

from refusals import refused, refuses
from tfsoftmax.partitions import code_files, tree_builders
from tfsoftmax.partitions.tree import Tree

SIZES = [1, 2, 3, 4, 5, 13, 64, 1000]
NESTED = [[["golf"], ["basketball", "football", "soccer"]], ["piano", "violin"]]  # Mao 2019
WORDS = ["violin", "golf", "soccer", "piano", "football", "basketball"]


def zipf(vocab_size, seed=0):
    counts = 10_000 // np.arange(1, vocab_size + 1)
    return np.random.default_rng(seed).permutation(counts)


def heap_cost(counts):
    """Sum of counts times depths of an optimal code: the sum of all merged weights."""
    heap, cost = [int(n) for n in counts], 0
    heapq.heapify(heap)
    while len(heap) > 1:
        total = heapq.heappop(heap) + heapq.heappop(heap)
        cost += total
        heapq.heappush(heap, total)
    return cost


def assert_same(tree, again):
    np.testing.assert_array_equal(tree.words, again.words)
    np.testing.assert_array_equal(tree.sizes, again.sizes)


def assert_prefix_free(codes):
    texts = sorted("".join(map(str, code)) for code in codes)
    assert all(not b.startswith(a) for a, b in zip(texts, texts[1:]))


@pytest.mark.parametrize("vocab_size", SIZES)
def test_balanced_depths_differ_by_at_most_one(vocab_size):
    tree = tree_builders.balanced(np.random.default_rng(0).permutation(vocab_size))
    assert tree.vocab_size == vocab_size
    assert np.ptp(tree.depths) <= 1
    assert tree.depths.max() == max(1, int(np.ceil(np.log2(vocab_size))))
    assert_prefix_free(tree.codes())


def test_balanced_keeps_the_order_from_left_to_right():
    order = np.random.default_rng(0).permutation(13)
    codes = tree_builders.balanced(order).codes()
    assert sorted(range(13), key=codes.__getitem__) == order.tolist()
    words = [f"w{n}" for n in order]
    codes = tree_builders.alphabetical(words).codes()
    assert sorted(range(13), key=codes.__getitem__) == sorted(range(13), key=words.__getitem__)


@pytest.mark.parametrize("vocab_size", SIZES)
def test_huffman_cost_equals_that_of_a_heap(vocab_size):
    counts = zipf(vocab_size)
    tree = tree_builders.huffman(counts)
    assert vocab_size == 1 or int(counts @ tree.depths) == heap_cost(counts)
    assert_prefix_free(tree.codes())


def huffman_depths(weights):
    """Depths of the words of rising weights, by two queues, of which the leaves win ties."""
    leaves = [(w, {i: 0}) for i, w in enumerate(weights)]
    inner = []
    while len(leaves) + len(inner) > 1:
        pair = []
        for _ in range(2):
            from_leaves = leaves and (not inner or leaves[0][0] <= inner[0][0])
            pair.append((leaves if from_leaves else inner).pop(0))
        (a, left), (b, right) = pair
        inner.append((a + b, {i: depth + 1 for i, depth in [*left.items(), *right.items()]}))
    return [(leaves or inner)[0][1][i] for i in range(len(weights))]


@pytest.mark.parametrize("kind", ["ties", "zeros", "rising", "powers"])
def test_huffman_merges_as_two_queues_do(kind):
    rng = np.random.default_rng(0)
    for size in range(2, 60):
        counts = {
            "ties": rng.integers(0, 5, size), "zeros": rng.integers(0, 2, size),
            "rising": np.exp(rng.normal(0, 8, size)), "powers": 2.0 ** rng.integers(0, 12, size),
        }[kind]
        counts = np.sort(counts + (0 if counts.any() else 1))
        depths = tree_builders.huffman(counts).depths
        np.testing.assert_array_equal(depths, huffman_depths(counts.tolist()))


def test_paths_lead_from_the_root_to_the_word():
    tree = tree_builders.huffman(zipf(50))
    for word, path in enumerate(tree.paths()):
        node = 0
        for edge in path[path >= 0]:
            assert edge // 2 == node
            node = int(np.sum(tree.words[: edge + 1] < 0))
        assert tree.words[path[path >= 0][-1]] == word


def test_paths_of_some_words_are_rows_of_those_of_all():
    tree, words = tree_builders.huffman(zipf(64)), [5, 0, 5, 63]
    np.testing.assert_array_equal(tree.paths(words), tree.paths()[words])


def test_levels_are_the_nodes_of_one_depth():
    tree = tree_builders.huffman(zipf(50))
    depth = [0] * len(tree.sizes)
    for node in range(1, len(tree.sizes)):
        depth[node] = depth[tree.owners[tree.entries[node]]] + 1
    assert [d for d, (a, b) in enumerate(tree.levels) for _ in range(a, b)] == depth


def test_codes_make_the_tree_that_has_them():
    tree = tree_builders.huffman(zipf(1000))
    codes = ["".join(map(str, code)) for code in tree.codes()]
    assert_same(tree, tree_builders.from_codes(codes))


def test_words_of_one_code_share_a_node_and_single_children_vanish():
    tree = tree_builders.from_codes(["0000", "0011", "1", "0011", "0011"])
    assert tree.codes() == [[0, 0], [0, 1, 0], [1], [0, 1, 1], [0, 1, 2]]
    assert not tree.is_binary


def test_binarised_nodes_are_huffman_trees():
    counts = zipf(1000)
    flat = Tree([1000], np.arange(1000))
    tree = tree_builders.binarised(flat, counts)
    assert tree.is_binary and int(counts @ tree.depths) == heap_cost(counts)
    nested = tree_builders.from_nested([[0, [1, 2, 3]], [4, 5, [6]]])
    tree = tree_builders.binarised(nested, [1, 1, 1, 9, 1, 9, 1])
    assert tree.is_binary
    assert tree.depths.tolist() == [2, 4, 4, 3, 3, 2, 3]


def test_nested_lists_are_the_corpus_tree_of_the_blog(tmp_path):
    tree = tree_builders.from_nested(NESTED, {word: i for i, word in enumerate(WORDS)})
    codes = dict(zip(WORDS, tree.codes()))
    assert codes["football"] == [0, 1, 1] and codes["violin"] == [1, 1]
    assert codes["golf"] == [0, 0, 0]
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(NESTED))
    assert_same(tree, tree_builders.build(path, 6, words=WORDS))


def test_paths_file_round_trip(tmp_path):
    path, codes = tmp_path / "paths", ["00", "01", "01", "1", "00", "00"]
    code_files.write_codes(path, codes, WORDS, [5, 4, 3, 2, 1, 9])
    assert path.read_text().splitlines()[0] == "00\tbasketball\t9"
    assert code_files.read_codes(path, WORDS) == codes
    # Words that the file lacks share a node apart from all others; foreign words are left out.
    assert code_files.read_codes(path, ["<unk>", "golf", "<eos>"]) == ["1", "001", "1"]


def test_a_file_of_codes_may_have_other_spellings_of_unk_and_eos(tmp_path):
    (tmp_path / "paths").write_text("00\t</s>\n01\t<UNK>\n10\tgolf\n11\t<unk>\n")
    assert code_files.read_codes(tmp_path / "paths", ["<eos>", "golf"]) == ["00", "10"]
    assert code_files.read_codes(tmp_path / "paths", ["<unk>", "<UNK>"]) == ["11", "01"]


def test_a_file_of_mkcls_is_not_read_with_its_columns_swapped(tmp_path):
    """Its classes 2, 3 and 5 are words, too."""
    (tmp_path / "classes").write_text("golf\t3\nviolin\t2\npiano\t5\n5\t7\n2\t4\n")
    words = ["2", "3", "5", "golf", "piano", "violin", "<unk>"]
    message = ("classes: must be `code<TAB>word` .* Received: more words of the vocabulary .* 5 "
               "and 3; `tfsoftmax cluster --method=file --format=mkcls` takes")
    refused(message, code_files.read_codes, tmp_path / "classes", words)
    found = code_files.read_codes(tmp_path / "classes", words, "mkcls")
    assert found == ["02", "1", "04", "01", "03", "00", "1"]
    (tmp_path / "classes").write_text("golf\t3\n5\t3\n2\t3\n")  # the first class is repeated
    with pytest.raises(ValueError, match="classes: must be `code<TAB>word`.*3 and 1"):
        code_files.read_codes(tmp_path / "classes", words)


@pytest.mark.parametrize("format, text", [
    ("mkcls", "golf\t10\n7\t9\npiano\t10\n"),
    ("word2vec", "golf 10\n7 9\npiano 10\n"),
    ("srilm", "10 0.5 golf\n9 1 7\n10 5e-1 piano\n"), ("srilm", "10 golf\n9 7\n10  piano\n"),
])
def test_files_of_classes_are_read_in_the_format_that_is_stated(tmp_path, format, text):
    (tmp_path / "classes").write_text(text)
    assert code_files.read_codes(tmp_path / "classes", ["7", "piano", "golf"], format) == [*"100"]
    (tmp_path / "classes").write_text(text + "new york city nights\n")
    with pytest.raises(ValueError, match="classes, line 4: must be `.*Received: 'new york"):
        code_files.read_codes(tmp_path / "classes", ["7"], format)


@pytest.mark.parametrize("name, data, message", [
    ("paths", b"0\ta\t3\n0 b\n", "paths, line 2: must be `code<TAB>word`"),
    ("paths", b"0\ta\t3\n0\t\t3\n", "paths, line 2: must be"),
    ("paths", b"0\ta\t3\n0\ta\t3\n", "paths, line 2: words must differ. Received: 'a' again"),
    ("paths", b"0\tviolin\n", "must have words of the vocabulary.*none of them known"),
    ("x.json", b"[[", "x.json: must be JSON"),
    ("paths", b"0\ta\n1\t\xff\n", "paths, line 2: must be UTF-8"),
    ("paths", b"0\ta\n00\tb\n", "paths: `codes` must not begin one with another"),
    ("x.json", b"[" * 100_000, "x.json: must be JSON. Received: too many levels of brackets"),
    ("x.json", b'["a", {"b": 1, "b": 2}]', "x.json: must be JSON. Received: the key 'b' twice"),
    ("x.json", b'["a", {"b": 1}]', "A leaf of `nested` must be a word .* Received: {'b': 1}"),
    ("x.json", b'["a", null]', "A leaf of `nested` must be a word .* Received: None"),
    ("x.json", b'["a", []]', "x.json: `nested` must not hold an empty list"),
    ("x.json", b'["a", "b", "a"]', "x.json: `words` must hold each of 0"),
    ("x.json", b'{"a": 1}', "x.json: must be nested lists"),
    ("x.json", b"\xff", "x.json, line 1: must be UTF-8"),
])
def test_damaged_files_are_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    refused(message, tree_builders.build, tmp_path / name, 2, words=["a", "b"])


def test_config_round_trip():
    nested = [[0, [1, 2, 3]], [4, 5, [6]]]
    for tree in (tree_builders.huffman(zipf(50)), tree_builders.from_nested(nested)):
        again = tree_builders.build(json.loads(json.dumps(tree.to_config())), tree.vocab_size)
        assert_same(tree, again)


def test_report_of_a_tree_counted_by_hand():
    report = tree_builders.from_nested([0, [1, 2, 3]]).report([4, 2, 1, 1])
    assert report["words"] == 4 and report["nodes"] == 2 and report["depth"] == 2
    assert report["mean_depth"] == 1.75 and report["expected_path_length"] == 1.5
    np.testing.assert_allclose(report["entropy_bits"], 1.75)
    assert report["expected_scores"] == 2 + 3 * 0.5
    np.testing.assert_allclose(report["balance"], np.log(4) / (np.log(2) + 0.75 * np.log(3)))


def nested_lists(words):
    nested = [0]
    for word in range(1, words):
        nested = [word, nested]
    return nested


@pytest.mark.parametrize("case", [
    ("order", "have at least one word", tree_builders.balanced, []),
    ("words", "hold each of 0 ... 1 once", Tree, [2], [0, 2]),
    ("words", "hold each of 0 ... 1 once", Tree, [2], [0, 0]),
    ("words", "lead to an inner node before the edges below", Tree, [2, 2], [0, 1, -1, 2]),
    ("sizes", "sum to the number of `words`", Tree, [2], [0]),
    ("sizes", "be positive integers", Tree, [], []),
    ("sizes", "be positive integers", Tree, [2, 0], [0, -1]),
    ("parents", "lead every node to the root", Tree.from_parents, [-1, 0, 3, 2], [-1, 0, -1, -1]),
    ("parents", "have one root. Received: 2 roots", Tree.from_parents, [-1, -1], [0, 1]),
    ("words", "be word ids at the leaves and -1 at", Tree.from_parents, [-1, 0, 0], [1, 0, -1]),
    ("codes", "not begin one with another", tree_builders.from_codes, ["00", "010", "01"]),
    (None, "A leaf of `nested` must be a word of", tree_builders.from_nested, ["tuba"], {"go": 0}),
    # Without a walk through all of them.
    (None, "have at most 1000 levels", tree_builders.from_nested, nested_lists(30_000)),
    ("counts", "be given for tree='huffman'", tree_builders.build, "huffman", 5),
    ("words", "be given for tree='alphabetical'", tree_builders.build, "alphabetical", 5),
    ("tree", "be a tree of 5 words. Received: one of 4", tree_builders.build,
     tree_builders.balanced(np.arange(4)), 5),
    *(("tree", "be what `Tree.to_config` returns", tree_builders.build, config, 2) for config in (
        {}, {"sizes": 2}, {"sizes": "x", "words": [0, 1]}, {"sizes": 2, "words": None},
        {"sizes": [2], "words": {"int32": "!"}}, {"sizes": 2, "words": [0, "a"]},
    )),
])
def test_what_is_no_tree_is_refused(case):
    name, rule, make, *arguments = case
    with refuses(name, rule):
        make(*arguments)


def test_the_name_of_no_file_is_refused():
    with refuses("tree", "be one of balanced, ", error=FileNotFoundError):
        tree_builders.build("hufman", 2, words=["a", "b"])
