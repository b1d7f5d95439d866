#!/usr/bin/env python3
"""Sentences that a trained model makes up, and the words that it expects next.

    python tools/generate.py --run=runs/first --prompt="returns the number of"

The sentences continue the prompt and never contain <unk>; one that ends in … was cut at
--max_words. Words are separated by blanks and read as the corpus writes them (case included);
the model reads those that it does not know as <unk>, and the tool names them.
"""

import sys

import dataclass_flags
from absl import flags


def main():
    prompt, count, top = flags.FLAGS.prompt.split(), flags.FLAGS.count, flags.FLAGS.top
    for name in ("count", "max_words", "top"):
        if flags.FLAGS[name].value < 1:
            raise ValueError(
                f"`{name}` must be at least 1. Received: {name}={flags.FLAGS[name].value}"
            )
    dataclass_flags.load_tensorflow()
    from tfsoftmax import runs
    from tfsoftmax.generation import next_words, sample

    model, vocabulary, _ = runs.load(flags.FLAGS.run, streams=count, steps=1)
    if top > len(vocabulary):
        raise ValueError(f"`top` must be at most {len(vocabulary)}. Received: top={top}")
    unknown = [word for word in dict.fromkeys(prompt) if word not in vocabulary]
    if unknown:
        print(f"not in the vocabulary, read as <unk>: {' '.join(unknown)}", file=sys.stderr)
    sentences = sample(
        model, vocabulary, prompt, count,
        flags.FLAGS.max_words, flags.FLAGS.temperature, flags.FLAGS.seed,
    )
    for words in sentences:
        cut = ["…"] if len(words) == flags.FLAGS.max_words else []
        print(" ".join(prompt + words + cut))
    print()
    print(table(next_words(model, vocabulary, prompt, top)))


def table(rows):
    """Aligned lines of probability and word, for a list of pairs of word and probability."""
    return "\n".join(["probability  next word", *(f"{p:>11.4%}  {word}" for word, p in rows)])


if __name__ == "__main__":
    flags.DEFINE_string("run", None, "directory of a training run", required=True)
    flags.DEFINE_string("prompt", "", "words that the sentences begin with")
    flags.DEFINE_integer("count", 5, "number of sentences")
    flags.DEFINE_integer("max_words", 40, "a sentence is cut after so many words")
    flags.DEFINE_float(
        "temperature", 1.0, "below one: likelier words more often; above one: a flatter choice"
    )
    flags.DEFINE_integer("seed", 1, "another seed gives other sentences")
    flags.DEFINE_integer("top", 8, "number of likely next words to list")
    dataclass_flags.run(main)
