"""BlackOut: a sampled softmax whose loss also lowers the shares of the sampled words."""

import keras

from tfsoftmax.heads.sampling import SamplingHead
from tfsoftmax.ops.criteria import Hits, blackout


@keras.saving.register_keras_serializable(package="tfsoftmax")
class BlackOut(SamplingHead):
    """-ln p(w) - Σ_{v ∈ S} ln(1 - p(v)), with shares p among the label w and the sample S.

        p(v) = exp(s_v) / c_v / ( exp(s_w) / c_w + Σ_{u ∈ S} exp(s_u) / c_u )

    The first term is `SampledSoftmax`; the second discriminates against each sampled word, as NCE
    does, with the noise distribution P_n of equation 2.42. c_v is S q(v), where S cancels, or
    without replacement the probability that the sample includes v. The authors' proposal is q ∝
    count^α: `sampler="unigram", sampler_options={"alpha": 0.4}`.

    Args:
        vocab_size: V, the number of words.
        num_samples, sampler, counts, sampler_options, ngram, words: as in `sampling.SamplingHead`.
        shared_samples, seed, synchronized: as in `sampling.SamplingHead`.
        remove_accidental_hits: whether they are removed. None means True, because a label should
            not be its own negative example.
        **kwargs: options of the weights and of the layer, `heads.options.ShardOptions`.

    Example:
        counts = [1_000_000 // rank for rank in range(1, 1001)]
        hidden, labels = keras.random.normal((8, 64)), keras.random.randint((8,), 0, 1000)
        head = tfsoftmax.BlackOut(1000, 50, counts=counts, sampler_options={"alpha": 0.4})
        nats = head.training_loss(hidden, labels)

    Source: Müller 2017, equations 2.40 to 2.42 (Ji et al. 2016).
    """

    def _hits(self):
        return Hits.KEEP if self.remove_accidental_hits is False else Hits.REMOVE

    def _nats(self, hidden, labels):
        return self._sampled_loss(blackout, hidden, labels)
