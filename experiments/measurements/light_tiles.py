"""What the tiles of a trained softmax hold, for the experiment `light_blocks`."""

import math

import numpy as np

from experiments.framework import markdown, pictures

THRESHOLD = 2.0**-12
ROWS, WIDTH, SHARE = 512, 512, 0.25
SHARES = (0.5, 0.25, 0.125)
HEADS_SIZE = "norm of Σ_n p (the head's)"


class Tiles:
    """What each tile of a batch holds, and the squared norms of its part of the gradient.

    Args:
        kernel, bias: (V, D) and (V,).
        hidden: (N, D).
        width: words of a tile.

    Attributes:
        highest, mass, below: (chunks, tiles): the largest probability, the sum of all, and how
            many lie below the threshold.
        of_kernel, of_hidden: (chunks, tiles): squared norms of the gradients of the mean nats.
        sizes: {name: (chunks, tiles)} by which tiles may be drawn.
        dropped: squared norms of the gradients' part in tiles below the threshold.
    """

    def __init__(self, kernel, bias, hidden, width):
        found, count = [], len(hidden)
        left_out = np.zeros_like(kernel), np.zeros_like(hidden)
        most = -(-count // -(-count // ROWS))  # the head's chunks have the same number of rows
        for first in range(0, count, most):
            rows = slice(first, first + most)
            logits = hidden[rows] @ kernel.T + bias
            p = np.exp(logits - logits.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            for start in range(0, len(kernel), width):
                words = slice(start, start + width)
                q = p[:, words]
                of_kernel, of_hidden = q.T @ hidden[rows] / count, q @ kernel[words] / count
                if q.max() < THRESHOLD:
                    left_out[0][words] += of_kernel
                    left_out[1][rows] += of_hidden
                squares = [np.sum(np.square(g), dtype=float) for g in (of_kernel, of_hidden)]
                found.append([
                    q.max(), q.sum(), np.sum(q < THRESHOLD), *squares,
                    np.linalg.norm(q.sum(0)), np.linalg.norm(q),
                ])
        tiles = -(-len(kernel) // width)
        columns = np.array(found).reshape(-1, tiles, 7).transpose(2, 0, 1)
        self.highest, self.mass, self.below, self.of_kernel, self.of_hidden, *norms = columns
        self.sizes = {
            "all alike": np.ones_like(self.mass), "mass Σ p": self.mass,
            HEADS_SIZE: norms[0], "root of Σ p²": norms[1],
            "norm of the kernel's gradient": self.of_kernel**0.5,
        }
        self.dropped = [np.sum(np.square(part)) for part in left_out]

    def variance(self, size, share):
        """Of the gradients of kernel and hidden states, if tiles are drawn independently."""
        inclusion = self.inclusion(size, share)
        return [np.sum(g * (1 / inclusion - 1)) for g in (self.of_kernel, self.of_hidden)]

    def inclusion(self, size, share):
        """π (chunks, tiles)."""
        from tfsoftmax.distributions.drawn_tiles import LEAST_SIZE
        from tfsoftmax.ops.inclusion import inclusion_probabilities

        count = math.ceil(share * self.mass.shape[1])
        return np.stack([
            inclusion_probabilities(s, count, LEAST_SIZE).numpy() for s in self.sizes[size]
        ])


def light_table(tiles_of):
    """How much of the probability lies in tiles with no likely word."""
    rows = [["words of a tile", "tiles below 2^-12", "their mass", "elements below 2^-12",
             "their gradient: kernel", "hidden states"]]
    for width, (tiles, whole) in tiles_of.items():
        light = tiles.highest < THRESHOLD
        rows.append([
            f"{width:,}", f"{light.mean():.1%}",
            f"{tiles.mass[light].sum() / tiles.mass.sum():.1%}",
            f"{tiles.below.sum() / (tiles.mass.sum() * whole['words']):.1%}",
            *(f"{np.sqrt(part / square):.1%}"
              for part, square in zip(tiles.dropped, whole["squares"])),
        ])
    return markdown.table(rows)


def variance_table(tiles_of):
    """Variances by size, share and width."""
    rows = [["tiles are drawn by", "share", "words of a tile", "kernel", "hidden states"]]
    cases = [(name, SHARE, WIDTH) for name in tiles_of[WIDTH][0].sizes]
    cases += [(HEADS_SIZE, share, WIDTH) for share in SHARES if share != SHARE]
    cases += [(HEADS_SIZE, SHARE, width) for width in tiles_of if width != WIDTH]
    for name, share, width in cases:
        tiles, whole = tiles_of[width]
        ratios = [v / w for v, w in zip(tiles.variance(name, share), whole["squares"])]
        rows.append([name, f"{share:g}", f"{width:,}", *(f"{ratio:.2g}" for ratio in ratios)])
    return markdown.table(rows)


def drawing(tiles, note):
    """The picture: how often each tile is drawn, and its mass, by the rank of its words."""
    figure = pictures.new(9, 4.4, "How often the tiles of a chunk are drawn", note)
    axes = figure.subplots()
    edges = np.append(np.arange(tiles.mass.shape[1]) * WIDTH, tiles.mass.shape[1] * WIDTH)
    for share, colour in zip(SHARES, pictures.COLOURS):
        inclusion = tiles.inclusion(HEADS_SIZE, share).mean(0)
        axes.stairs(inclusion, edges, color=colour, label=f"share {share:g}", linewidth=1.5)
    mass = tiles.mass.sum(0) / tiles.mass.sum()
    axes.stairs(mass, edges, color=pictures.GREY, fill=True, label="probability of the tile")
    axes.set(xlabel="rank of the word", ylabel="π, mean of the chunks", ylim=(1e-4, 1.3))
    axes.set_yscale("log")
    pictures.frame(axes, legend={"loc": "upper right", "ncols": 2})
    return figure
