"""Named hyperparameters for pairs of texts.

| preset | source | what the source does not say, and is ours |
|---|---|---|
| shen | Shen et al. 2017, section 5.2 | attention, initial weights, epochs |
| demo | trains for minutes on two cores with the docstring_pairs corpus | |

`shen` decays all weights by Adam's learning rate times 1e-6, apart from the gradient, and does not
decay the learning rate.
"""

PRESETS = {
    "shen": {
        "cell": "lstm", "layers": 1, "hidden_units": 512, "embedding_units": 512,
        "attention": "luong", "optimizer": "adam", "learning_rate": 1e-3, "weight_decay": 1e-6,
        "decay": 1.0, "clip_norm": 0.0, "dropout": 0.0, "reduce": "token",
    },
    "demo": {
        "cell": "lstm", "layers": 1, "hidden_units": 128, "embedding_units": 128,
        "attention": "luong", "optimizer": "adam", "learning_rate": 3e-3, "clip_norm": 5.0,
        "dropout": 0.1, "reduce": "token", "epochs": 4,
    },
}
