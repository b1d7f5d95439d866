"""Turns text into a vocabulary and TFRecords for any number of runs.

    tfsoftmax prepare --out=data/docstrings
    tfsoftmax prepare --corpus=text --train='a/*.gz' --valid=b.txt --out=data/a
    tfsoftmax prepare --corpus=text --train=train.jsonl --valid=valid.jsonl \\
        --tokenizer=sentencepiece --max_vocab=8000 --out=data/pieces
    tfsoftmax prepare --corpus=hf:roneneldan/TinyStories --out=data/stories

The docstrings, ptb and wikitext corpora have the splits train, valid and test; text8 and lm1b have
train and valid; hf has those of the data set; text has those for which you give files. The command
counts the words and numbers them in descending order of frequency. It shuffles the sentences and
divides them among parallel streams, or with --order=text gives each stream a contiguous part of the
text. It cuts the streams into records of (streams, time_steps + 1) words.

Sentence markers of other programs, such as <s> and </s>, are left out at the beginning and end of
lines and are an error elsewhere. Tokenizers that split words into pieces treat them as text. Files
without words are skipped. Notes on standard error say so.

With --tokenizer sentences are split into pieces instead of words. The tokenizer is kept with the
corpus and with each run, so that tfsoftmax score, generate and rescore read and write text. A
tokenizer that the command trains knows every byte and restores every text exactly; lines that
another tokenizer does not restore are counted. All pieces are in the vocabulary, in descending
order of frequency.

The directory appears only when it is complete.
"""

from tfsoftmax.corpora.config import PrepareConfig


def main(config: PrepareConfig):
    from tfsoftmax.corpora.prepare import prepare, summary

    print(summary(prepare(config)))
