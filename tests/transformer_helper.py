"""A Transformer block as loops over words and heads, in float64."""

import math

import numpy as np

NAMES = (
    "attention_norm", "words_norm", "queries", "keys", "values", "attended", "hidden", "outputs",
)


def rotation(vector, position):
    """Su et al. 2021, equation 34, for the pairs of units i and i + d/2."""
    half, result = len(vector) // 2, np.array(vector, np.float64)
    for i in range(half):
        angle = position * 10000 ** (-2 * i / len(vector))
        x, y = float(vector[i]), float(vector[i + half])
        result[i] = x * math.cos(angle) - y * math.sin(angle)
        result[i + half] = y * math.cos(angle) + x * math.sin(angle)
    return result


def attention(queries, keys, values, real, heads, context):
    """What each query of a text sees; key C + t is that of query t. (T, D) and (C + T, D)."""
    units, result = queries.shape[1] // heads, np.zeros(queries.shape)
    for t, query in enumerate(queries):
        seen = [j for j in range(t, t + context + 1) if real[j]]
        for head in range(heads):
            part = slice(head * units, (head + 1) * units)
            turned = rotation(query[part], context + t)
            scores = [turned @ rotation(keys[j, part], j) / math.sqrt(units) for j in seen]
            shares = np.exp(np.array(scores) - max(scores))
            for share, j in zip(shares / shares.sum(), seen):
                result[t, part] += share * values[j, part]
    return result


def block(weights, words, heads, context):
    """A block for one text (T, D) from its beginning; weights as the layer lists them."""
    w = dict(zip(NAMES, (np.asarray(each, np.float64) for each in weights), strict=True))

    def norm(vectors, scale):
        return vectors / np.sqrt((vectors**2).mean(-1, keepdims=True) + 1e-6) * scale

    def gelu(x):
        return x * np.vectorize(lambda v: (1 + math.erf(v / math.sqrt(2))) / 2)(x)

    before = np.zeros((context, words.shape[1]))
    queries, keys, values = (
        norm(words, w["attention_norm"]) @ w[name] for name in ("queries", "keys", "values")
    )
    seen = attention(
        queries, np.concatenate([before, keys]), np.concatenate([before, values]),
        [0] * context + [1] * len(words), heads, context,
    )
    hidden = words + seen @ w["attended"]
    return hidden + gelu(norm(hidden, w["words_norm"]) @ w["hidden"]) @ w["outputs"]
