"""Turns pairs of texts into a vocabulary and TFRecords for any run.

    tfsoftmax prepare_pairs --out=data/docstring_pairs
    tfsoftmax prepare_pairs --corpus=text --train=a.tsv --valid=b.tsv --out=mine

docstring_pairs has the splits train, valid and test; gigaword has train and valid, and test,
duc2003 and duc2004 if their files are there; text has those for which you give files. Each record
is a batch of pairs of similar lengths, and each pair is in one record. Pairs with an empty side,
and those with more than --max_target words in the target, are left out and counted. The texts
themselves are kept in SPLIT-texts.tsv.gz.

Sentence markers of other programs, such as <s> and </s>, are left out at the beginning and end of
texts and are an error elsewhere. Notes on standard error say so.

The directory appears only when it is complete.
"""

from tfsoftmax.pairs.config import PairsConfig


def main(config: PairsConfig):
    from tfsoftmax.pairs.prepare import prepare, summary

    print(summary(prepare(config)))
