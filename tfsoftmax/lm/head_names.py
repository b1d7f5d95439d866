"""The heads by the names of commands, beside their relatives: class, and what `--help` says of it.

This module does not import TensorFlow, so that `--help` answers at once; `lm.head_options` has
the classes.
"""

HEAD_NAMES = {
    "full": ("FullSoftmax", "softmax over all words"),
    "char_cnn": (
        "CharCnnSoftmax",
        "full softmax whose kernel is computed from the characters of the words",
    ),
    "self_normalised": (
        "SelfNormalisedSoftmax",
        "full softmax that is trained to need no normalisation",
    ),
    "spherical": ("SphericalSoftmax", "squares of scores instead of exponentials"),
    "taylor": ("TaylorSoftmax", "second-order expansion of the exponential"),
    "sampled": ("SampledSoftmax", "sampled softmax (importance sampling)"),
    "nce": ("NCE", "noise-contrastive estimation"),
    "negative": ("NegativeSampling", "negative sampling"),
    "blackout": ("BlackOut", "BlackOut, a discriminative loss over a weighted sample"),
    "adaptive": ("AdaptiveSoftmax", "adaptive softmax, with a shortlist and tails of rarer words"),
    "two_level": ("TwoLevelSoftmax", "adaptive softmax with one tail"),
    "differentiated": (
        "DifferentiatedSoftmax",
        'differentiated softmax, with fewer units for rarer words; it needs head_options, '
        'e.g. {"cutoffs": [2000, 10000]}',
    ),
    "shortlist": (
        "Shortlist",
        'softmax over a shortlist, with another model for all other words; it needs '
        'head_options, e.g. {"shortlist": 2000}',
    ),
    "tree": ("TreeSoftmax", "hierarchical softmax over a binary tree"),
    "class": ("ClassSoftmax", "class-based softmax"),
    "class_unigram": ("ClassUnigram", "softmax over classes, with fixed shares of their words"),
    "class_nce": ("ClassNCE", "class-based softmax, trained by noise-contrastive estimation"),
    "nary": (
        "NarySoftmax",
        'hierarchical softmax over a tree with any number of branches; it needs head_options, '
        'e.g. {"tree": "huffman"}',
    ),
    "self_organised": (
        "SelfOrganisedSoftmax",
        "class-based softmax whose words choose their clusters",
    ),
    "sharded": ("ShardedSoftmax", "as full, but divided among the devices"),
}
