"""Reads of whole variables are not copies of them, whatever was done to their rows before."""

import numpy as np
import pytest
import tensorflow as tf

import tfsoftmax
from tfsoftmax.ops import custom_gradients
from tfsoftmax.ops.graphs import whole
from tfsoftmax.sharding.shards import assign_range
from tfsoftmax.support import budgets


def address(tensor):
    return np.asarray(memoryview(tensor)).ctypes.data


def gathered(variable):
    tf.gather(variable, [3, 7])


def updated(variable):
    variable.scatter_add(tf.IndexedSlices(tf.ones((1, 16)), tf.constant([2])))


@pytest.mark.parametrize("change", [gathered, updated])
def test_a_value_is_no_copy_and_keeps_its_numbers(change):
    variable = tf.Variable(tf.ones((50, 16)))
    change(variable)
    one, other = tf.convert_to_tensor(variable), tf.convert_to_tensor(variable)
    assert address(one) != address(other)  # what TensorFlow does by itself
    del one, other
    value, again = whole(variable), whole(variable)
    assert address(value) == address(again)
    before = value.numpy()
    updated(variable)
    np.testing.assert_array_equal(value, before)
    assert whole(variable)[2, 0] == before[2, 0] + 1


@pytest.mark.parametrize("change", [lambda _: None, gathered, updated])
def test_blocks_of_rows_are_assigned_in_place(change):
    variable = tf.Variable(tf.zeros((50, 16)))
    change(variable)
    assign_range(variable, 0, np.ones((1, 16)))  # which may copy once
    before = address(whole(variable))
    for first in range(0, 50, 10):
        assign_range(variable, first, np.full((10, 16), first))
    assert address(whole(variable)) == before
    np.testing.assert_array_equal(variable[:, 3], np.repeat(np.arange(0, 50, 10), 10))


@pytest.mark.parametrize("make", [
    lambda **o: tfsoftmax.FullSoftmax(50, **o), lambda **o: tfsoftmax.SampledSoftmax(50, 5, **o),
])
def test_heads_do_not_copy_the_table_of_an_embedding(make):
    embedding = tfsoftmax.Embedding(50, 16)
    head = make(tied_to=embedding)
    head.build((None, 16))
    embedding(np.array([3, 7]))
    assert address(head.plain_softmax().kernel) == address(head.plain_softmax().kernel)
    kernel = head.plain_softmax().kernel
    embedding(np.array([3, 7]))
    assert address(kernel) != address(head.plain_softmax().kernel)


@pytest.mark.parametrize("search", ["top_k", "log_normaliser"])
def test_a_search_reads_the_kernel_once_outside_its_loops(search, monkeypatch):
    monkeypatch.setattr(budgets, "TOP_K_WORDS", 16)
    head = tfsoftmax.SampledSoftmax(50, 5, "uniform", use_bias=False)
    head.build((None, 16))
    options = {"k": 2} if search == "top_k" else {}
    graph = tf.function(getattr(head, search)).get_concrete_function(
        tf.TensorSpec([None, 16]), **options
    ).graph.as_graph_def()
    loops = [node.op for function in graph.library.function for node in function.node_def]
    assert loops and "ReadVariableOp" not in loops
    operations = [node.op for node in graph.node]
    assert operations.count("ReadVariableOp") == 1 == operations.count("DisableCopyOnRead")


@pytest.mark.parametrize("case", ["full", "self-normalised", "adaptive"])
def test_a_loss_reads_the_table_of_an_embedding_so(case, monkeypatch):
    if case == "adaptive":
        embedding = tfsoftmax.AdaptiveEmbedding(50, 16, [10], projection_factor=None)
    else:
        embedding = tfsoftmax.Embedding(50, 16)
    head = tfsoftmax.HEADS[case.replace("-", "_")](50, tied_to=embedding)
    labels, hidden = np.array([1, 20]), tf.ones((2, 16))
    head.build(hidden.shape)

    table, found = embedding.trainable_variables[-1].value, []
    monkeypatch.setattr(
        custom_gradients, "whole",
        lambda v: found.append(whole(v)) or found[-1] if v is table else whole(v),
    )
    embedding(labels)
    head.training_loss(hidden, labels)
    head.loss_and_nats(hidden, labels, np.ones(2, np.float32))
    one, other = map(address, found)
    assert one == other == address(whole(table))


def test_xla_reads_variables_itself():
    variable = tf.Variable(tf.ones((5, 3)))
    read = tf.function(lambda: tf.reduce_sum(whole(variable)), jit_compile=True)
    assert read() == 15
