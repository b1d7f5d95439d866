"""Turns text into a vocabulary and TFRecords, once, for any number of training runs.

    tfsoftmax prepare --out=data/docstrings
    tfsoftmax prepare --corpus=text --train='books/*.txt.gz' --valid=v.txt --out=data/books

Splits: docstrings, ptb and wikitext have train, valid and test; text what is given; text8 and
lm1b train and valid. Words are counted, then encoded by falling frequency; sentences are
shuffled and dealt to parallel streams, cut into records of (streams, steps + 1) words. The
directory appears whole or not at all.
"""


from tfsoftmax.commands import dataclass_flags
from tfsoftmax.corpora.config import PrepareConfig


def define_flags():
    dataclass_flags.define(PrepareConfig)


def main():
    config = dataclass_flags.parse(PrepareConfig)
    from tfsoftmax.corpora.prepare import prepare, summary

    print(summary(prepare(config)))
