"""Named hyperparameters: those of the papers, and of the demonstration.

| preset | source | what the source does not say, and is ours |
|---|---|---|
| demo | trains in two to three minutes on two cores with the docstrings corpus | |
| text8 | Müller 2017, table 4.5 | |
| fdt | Müller 2017, table 4.5 | |
| jiang | Jiang et al. 2017: a GRU, as in the authors' code of p-tHSM (lmkit) | see below |
| mao | Mao 2019: a softmax of two layers of about sqrt(V) branches | all of the training |
| shen | Shen et al. 2017, section 4.2, as Grave et al. 2017 | see below |
| shmuma | Shmuma 2017: an LSTM of 512 units, embeddings of 50 for GloVe | the optimisation |
| transformer | none: a small Transformer as is usual today, for millions of words | |

In `jiang` and `shen`, the initial weights are ours, and so is halving the learning rate after an
epoch without a gain; in `jiang`, the clipping is ours too.

The thesis halves the learning rate on Text8 when the validation perplexity has not fallen in an
epoch. `shen` decays the weights of the LSTM only. This decay is decoupled from Adagrad, whereas the
paper adds it to the gradient.
"""

_THESIS = {"cell": "lstm", "layers": 1, "embedding_units": 512, "reduce": "stream"}

PRESETS = {
    "demo": {
        "head": "adaptive", "cell": "lstm", "layers": 1, "hidden_units": 128,
        "embedding_units": 128,
        "optimizer": "adagrad", "learning_rate": 0.5, "init_scale": 0.1, "clip_norm": 5.0,
        "dropout": 0.0, "reduce": "stream", "epochs": 4,
    },
    "text8": {
        **_THESIS, "hidden_units": 512, "optimizer": "adagrad", "learning_rate": 0.2, "decay": 0.5,
        "init_scale": 0.1, "clip_norm": 0.25, "dropout": 0.25,
    },
    "fdt": {
        **_THESIS, "hidden_units": 2048, "optimizer": "sgd", "learning_rate": 2.0, "decay": 1.0,
        "init_scale": 0.05, "clip_norm": 1.0, "dropout": 0.0,
    },
    "jiang": {
        "cell": "gru", "layers": 1, "hidden_units": 256, "embedding_units": 256,
        "optimizer": "adam", "learning_rate": 1e-3, "decay": 0.5, "clip_norm": 5.0, "dropout": 0.1,
        "reduce": "token",
    },
    "mao": {
        "head": "nary", "cell": "lstm", "layers": 1, "hidden_units": 512, "embedding_units": 512,
        "optimizer": "adagrad", "learning_rate": 0.2, "clip_norm": 0.25, "reduce": "stream",
    },
    "shen": {
        "head": "self_organised", "cell": "lstm", "layers": 1, "hidden_units": 512,
        "embedding_units": 512, "optimizer": "adagrad", "learning_rate": 0.1,
        "weight_decay": 1e-6, "weight_decay_on": "recurrent", "clip_norm": 0.25, "dropout": 0.0,
        "reduce": "stream", "epochs": 5, "reassign_steps": 1000,
    },
    "shmuma": {
        "head": "two_level", "cell": "lstm", "layers": 1, "hidden_units": 512,
        "embedding_units": 50, "optimizer": "adagrad", "learning_rate": 0.2, "clip_norm": 0.25,
        "reduce": "stream",
    },
    "transformer": {
        "cell": "transformer", "layers": 4, "hidden_units": 256, "embedding_units": 256,
        "attention_heads": 4, "context": 64, "tie_embeddings": True, "init_scale": 0.05,
        "optimizer": "adam", "learning_rate": 1e-3, "decay": 0.5, "clip_norm": 1.0, "dropout": 0.2,
        "reduce": "token",
    },
}
