"""Float64 NumPy loops, written from the equations, that the fast code is held against."""

import numpy as np


def score(h, row, bias=0.0, soft_cap=None):
    """The score of the word that has this row, in float64."""
    result = sum(float(a) * float(b) for a, b in zip(h, row)) + float(bias)
    return result if soft_cap is None else soft_cap * np.tanh(result / soft_cap)


def full_log_probs(hidden, kernel, bias, soft_cap=None):
    """ln P(w | h) for each position and word (Müller 2017, eq. 2.6), as loops."""
    result = np.zeros((len(hidden), len(kernel)))
    for i, h in enumerate(hidden):
        scores = [score(h, row, b, soft_cap) for row, b in zip(kernel, bias)]
        total = sum(np.exp(s) for s in scores)
        result[i] = [s - np.log(total) for s in scores]
    return result


def full_objective(hidden, kernel, bias, labels, soft_cap=None, label_smoothing=0.0, z_loss=0.0):
    """Nats of each position with smoothing over the uniform distribution and c (ln Z)²."""
    log_probs = full_log_probs(hidden, kernel, bias, soft_cap)
    losses = []
    for i, label in enumerate(labels):
        target = -log_probs[i, label]
        uniform = -sum(log_probs[i]) / len(kernel)
        log_z = score(hidden[i], kernel[label], bias[label], soft_cap) - log_probs[i, label]
        losses.append(
            (1 - label_smoothing) * target + label_smoothing * uniform + z_loss * log_z**2
        )
    return np.array(losses)


def full_step(
    hidden, kernel, bias, labels, weights, soft_cap=None, label_smoothing=0.0, z_loss=0.0
):
    """Losses and nats of each position, and [dh, dW, db] of Σ weights · losses."""
    hidden, kernel, bias, weights = (
        np.asarray(x, np.float64) for x in (hidden, kernel, bias, weights)
    )
    logits, slope = hidden @ kernel.T + bias, 1.0
    if soft_cap:
        logits = soft_cap * np.tanh(logits / soft_cap)
        slope = 1 - (logits / soft_cap) ** 2
    log_z = np.logaddexp.reduce(logits, axis=1)
    wanted = np.full(logits.shape, label_smoothing / logits.shape[1])
    wanted[np.arange(len(labels)), labels] += 1 - label_smoothing
    losses = log_z + z_loss * log_z**2 - (wanted * logits).sum(axis=1)
    factors = 1 + 2 * z_loss * log_z
    probabilities = np.exp(logits - log_z[:, None])
    d = weights[:, None] * (factors[:, None] * probabilities - wanted) * slope
    nats = log_z - logits[np.arange(len(labels)), labels]
    return losses, nats, [d @ kernel, d.T @ hidden, d.sum(axis=0)]


def adaptive_log_probs(hidden, kernels, biases, projections, order=None):
    """ln P(w | h) for each position and word id (Müller 2017, eq. 2.16), as loops.

    `kernels[0]` has a row for each word of the shortlist and then for each tail; `order` lists
    word ids by frequency rank.
    """
    def exps(h, k):
        if projections[k] is not None:
            h = [score(h, column) for column in projections[k].T]
        return [np.exp(score(h, row, bias)) for row, bias in zip(kernels[k], biases[k])]

    tails = len(kernels) - 1
    result = []
    for h in hidden:
        head = exps(h, 0)
        shortlist = len(head) - tails
        probs = [e / sum(head) for e in head[:shortlist]]
        for k in range(1, tails + 1):
            tail = exps(h, k)
            probs += [head[shortlist + k - 1] / sum(head) * e / sum(tail) for e in tail]
        by_id = list(probs)
        for rank, word in enumerate(range(len(probs)) if order is None else order):
            by_id[word] = probs[rank]
        result.append(np.log(by_id))
    return np.array(result)


def numeric_gradient(function, array, step=1e-3):
    """Central differences of a scalar function of one array, entry by entry."""
    array = np.array(array, np.float64)
    result = np.zeros_like(array)
    for index in np.ndindex(*array.shape):
        ends = []
        for sign in (1, -1):
            moved = array.copy()
            moved[index] += sign * step
            ends.append(function(moved))
        result[index] = (ends[0] - ends[1]) / (2 * step)
    return result


def tree_log_probs(hidden, kernel, bias, codes):
    """ln P(w | h) as the product of decisions (Jiang et al. 2017, eq. 2-3): bits 0 = d of +1."""
    nodes = {(): 0}  # breadth-first, as the rows of the kernel
    for depth in range(1, max(map(len, codes))):
        for prefix in sorted({tuple(code[:depth]) for code in codes if len(code) > depth}):
            nodes[prefix] = len(nodes)
    result = np.zeros((len(hidden), len(codes)))
    for i, h in enumerate(hidden):
        for word, code in enumerate(codes):
            for depth, bit in enumerate(code):
                node = nodes[tuple(code[:depth])]
                z = score(h, kernel[node], bias[node])
                result[i, word] -= np.log1p(np.exp(-(1 - 2 * bit) * z))
    return result


def nary_log_probs(hidden, kernel, bias, codes):
    """ln P(w | h) as a product of softmaxes over the children on the way (Mao 2019)."""
    prefixes = {tuple(code[:depth]) for code in codes for depth in range(1, len(code) + 1)}
    edges = {p: i for i, p in enumerate(sorted(prefixes, key=lambda p: (len(p), p)))}
    result = np.zeros((len(hidden), len(codes)))
    for i, h in enumerate(hidden):
        scores = {p: score(h, kernel[e], bias[e]) for p, e in edges.items()}
        for word, code in enumerate(codes):
            for depth in range(1, len(code) + 1):
                node = tuple(code[: depth - 1])
                siblings = [s for p, s in scores.items() if p[:-1] == node and len(p) == depth]
                total = sum(np.exp(s) for s in siblings)
                result[i, word] += scores[tuple(code[:depth])] - np.log(total)
    return result


def class_log_probs(hidden, class_kernel, class_bias, kernel, bias, classes):
    """ln P(c | h) + ln P(w | h, c) (Goodman 2001); kernel and bias in the order of the words."""
    by_class = full_log_probs(hidden, class_kernel, class_bias)
    result = np.zeros((len(hidden), len(classes)))
    for c in set(classes):
        words = [w for w in range(len(classes)) if classes[w] == c]
        within = full_log_probs(hidden, kernel[words], bias[words])
        result[:, words] = by_class[:, [c]] + within
    return result


def candidate_scores(hidden, kernel, bias, label, ids, remove_hits):
    """The label's score and [(id, score)] of the samples of one position, in float64."""
    target, *others = [score(hidden, kernel[word], bias[word]) for word in [label, *ids]]
    return target, [(w, s) for w, s in zip(ids, others) if not (remove_hits and w == label)]


def sampled_softmax(hidden, kernel, bias, labels, ids, count, remove_hits):
    """Müller 2017, eq. 2.29; `count` is the expected count of each word."""
    losses = []
    for h, label in zip(hidden, labels):
        target, samples = candidate_scores(h, kernel, bias, label, ids, remove_hits)
        numerator = np.exp(target) / count[label]
        others = sum(np.exp(s) / count[w] for w, s in samples)
        losses.append(-np.log(numerator / (numerator + others)))
    return np.array(losses)


def importance_sampling(hidden, kernel, bias, labels, ids, count):
    """Müller 2017, eq. 2.26 but for ln `count` of the label, and its gradient by eq. 2.25.

    Returns losses (N,), and the gradients of their sum by hidden, kernel and bias.
    """
    losses, gradients = [], [np.zeros(np.shape(x)) for x in (hidden, kernel, bias)]
    for n, (h, label) in enumerate(zip(np.float64(hidden), labels)):
        target, samples = candidate_scores(h, kernel, bias, label, ids, False)
        omega = [np.exp(s) / count[w] for w, s in samples]
        losses.append(np.log(sum(omega)) - target)
        factors = [(label, -1.0)] + [(w, o / sum(omega)) for (w, _), o in zip(samples, omega)]
        for word, factor in factors:  # the gradient of a word's score is the row, h, or one
            gradients[0][n] += factor * kernel[word]
            gradients[1][word] += factor * h
            gradients[2][word] += factor
    return np.array(losses), gradients


def nce(hidden, kernel, bias, labels, ids, count, remove_hits, Z=1.0):
    """Müller 2017, eq. 2.37, from the posterior of eq. 2.34; `count` is k times the noise's q."""
    losses = []
    for h, label in zip(hidden, labels):
        target, samples = candidate_scores(h, kernel, bias, label, ids, remove_hits)
        p = np.exp(target) / Z
        loss = -np.log(p / (count[label] + p))
        for w, s in samples:
            p = np.exp(s) / Z
            loss -= np.log(count[w] / (count[w] + p))
        losses.append(loss)
    return np.array(losses)


def negative_sampling(hidden, kernel, bias, labels, ids, count, remove_hits):
    """Müller 2017, eq. 2.38: NCE in which every count is one."""
    return nce(hidden, kernel, bias, labels, ids, np.ones_like(count), remove_hits)


def blackout(hidden, kernel, bias, labels, ids, count, remove_hits):
    """Müller 2017, eq. 2.40 and 2.41."""
    losses = []
    for h, label in zip(hidden, labels):
        target, samples = candidate_scores(h, kernel, bias, label, ids, remove_hits)
        weights = [np.exp(s) / count[w] for w, s in samples]
        total = np.exp(target) / count[label] + sum(weights)
        loss = -np.log(np.exp(target) / count[label] / total)
        losses.append(loss - sum(np.log(1 - weight / total) for weight in weights))
    return np.array(losses)


def scores_of(hidden, kernel, bias, ids, soft_cap=None):
    """Logits of the words (N, C) of each position; -inf where an id is -1."""
    result = np.full(ids.shape, -np.inf)
    for n, words in enumerate(ids):
        for c, w in enumerate(words):
            if w >= 0:
                result[n, c] = score(hidden[n], kernel[w], 0 if bias is None else bias[w], soft_cap)
    return result


def estimated_log_z(hidden, kernel, bias, ids, sample, soft_cap=None):
    """ln of Horvitz and Thompson's estimate of Z, and its standard error by Deville's variance."""
    log_z, errors = [], []
    for n, words in enumerate(ids):
        found = {w for w in words if w >= 0}

        def term(w, n=n):
            return np.exp(scores_of(hidden[n : n + 1], kernel, bias, np.array([[w]]), soft_cap))

        z = sum(term(w).item() for w in found)
        shares = []
        for w, pi in zip(sample.ids, sample.inclusion):
            y = 0.0 if w in found else term(w).item() / pi
            z += y
            if pi < 1:
                shares.append((y, 1 - pi))
        total = sum(c for _, c in shares)
        mean = sum(c * y for y, c in shares) / total
        variance = sum(c * (y - mean) ** 2 for y, c in shares) * len(shares) / (len(shares) - 1)
        log_z.append(np.log(z))
        errors.append(np.sqrt(variance) / z)
    return np.array(log_z), np.array(errors)


def family_log_probs(hidden, kernel, bias, function):
    """ln f(x_w) - ln Σ f(x_v) (Müller 2017, eq. 2.49 and 2.50), as loops."""
    result = np.zeros((len(hidden), len(kernel)))
    for i, h in enumerate(hidden):
        values = [function(score(h, row, b)) for row, b in zip(kernel, bias)]
        result[i] = [np.log(value) - np.log(sum(values)) for value in values]
    return result


def spherical_descent(rows, hidden, labels, weights, epsilon, rate, use_bias):
    """A step of gradient descent on [W, b] (V, D + 1) of Σ weights · nats, as loops."""
    gradient = np.zeros_like(rows)
    for h, label, weight in zip(np.asarray(hidden, np.float64), labels, weights):
        h = np.append(h, 1.0)
        scores = rows @ h
        total = sum(z**2 + epsilon for z in scores)
        for word, z in enumerate(scores):
            slope = 2 * z / total
            if word == label:
                slope -= 2 * z / (z**2 + epsilon)
            gradient[word] += float(weight) * slope * h
    if not use_bias:
        gradient[:, -1] = 0
    return rows - rate * gradient


def squared_errors(hidden, kernel, bias, labels, function):
    """Σ_v (f(x_v) - 1[v = label])² of each position (Müller 2017, eq. 2.51), as loops."""
    losses = []
    for h, label in zip(hidden, labels):
        values = [function(score(h, row, b)) for row, b in zip(kernel, bias)]
        losses.append(sum((value - (w == label)) ** 2 for w, value in enumerate(values)))
    return np.array(losses)


def character_rows(words, characters, filters, highways, projection, corrections):
    """CNN(chars(w)) + corr(w) of each word (Müller 2017, eq. 2.48; Kim et al. 2015), as loops.

    `characters` has a row for each byte, for a mark of the beginning and one of the end; `filters`
    are (kernel (width, d, F), bias), `highways` (W, b, U, c) with tanh, all of float64.
    """
    widest = max(len(kernel) for kernel, _ in filters)
    result = []
    for word, correction in zip(words, corrections):
        symbols = [256, *word.encode(), 257]
        signal = [characters[symbol] for symbol in symbols]
        signal += [np.zeros_like(signal[0])] * (widest - len(signal))
        features = []
        for kernel, bias in filters:
            width, places = len(kernel), max(len(symbols) - len(kernel), 0) + 1
            for f in range(len(bias)):
                sums = [
                    sum(np.dot(signal[start + i], kernel[i, :, f]) for i in range(width)) + bias[f]
                    for start in range(places)
                ]
                features.append(np.tanh(max(sums)))
        y = np.array(features)
        for w, b, u, c in highways:
            share = 1 / (1 + np.exp(-(y @ u + c)))
            y = share * np.tanh(y @ w + b) + (1 - share) * y
        result.append(y @ projection + correction)
    return np.array(result)


def ranking(found, relevant, k):
    """Recall, NDCG, reciprocal rank, precision and average precision at k of one list."""
    relevant, ranks = {i for i in relevant if i >= 0}, []
    for rank, item in enumerate(found[:k], 1):
        if item in relevant:
            ranks.append(rank)
    dcg = sum(1 / np.log2(1 + rank) for rank in ranks)
    best = sum(1 / np.log2(1 + rank) for rank in range(1, min(k, len(relevant)) + 1))
    first = 1 / ranks[0] if ranks else 0.0
    precisions = sum(found_until / rank for found_until, rank in enumerate(ranks, 1))
    return (
        len(ranks) / len(relevant), dcg / best, first, len(ranks) / k, precisions / len(relevant),
    )
