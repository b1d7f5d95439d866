"""Sentences that a trained model makes up, and the words that it expects next.

    tfsoftmax generate --run=runs/first --prompt="returns the number of"
    tfsoftmax generate --run=runs/first --greedy
    tfsoftmax generate --run=runs/first --top_k=40 --temperature=0.8 --count=1
    tfsoftmax generate --run=runs/first --top_p=0.9 --prompts=beginnings.txt
    tfsoftmax generate --run=runs/first --beam=8

Words are drawn from the model's distribution; --greedy takes the likeliest, --top_k and --top_p
draw from few, --beam searches for the likeliest sentence. --greedy, --top_k and --beam ask the
head for its likeliest words only, which adaptive and tree heads find without computing all.

The sentences continue the prompt and never contain <unk>; one that ends in … was cut at
--max_words. A single sentence is written word by word as it comes. Words are separated by blanks
and read as the corpus writes them (case included); the model reads those that it does not know
as <unk>, and the tool names them. --beam prints ln P of each sentence, its end included, before it.
"""

import sys

from absl import flags

from tfsoftmax.commands.program import load_tensorflow

SIDE_BY_SIDE = 64  # sentences that are drawn at the same time


def define_flags():
    flags.DEFINE_string("run", None, "directory of a training run", required=True)
    flags.DEFINE_string("prompt", "", "words that the sentences begin with")
    flags.DEFINE_string("prompts", None, "file of prompts, one a line; - is the standard input")
    flags.DEFINE_integer(
        "count", None,
        "sentences for each prompt; by default 5, with --greedy or --prompts 1, with --beam all",
    )
    flags.DEFINE_integer("max_words", 40, "a sentence is cut after so many words")
    flags.DEFINE_bool("greedy", False, "take the likeliest word each time")
    flags.DEFINE_float(
        "temperature", 1.0, "below one: likelier words more often; above one: a flatter choice"
    )
    flags.DEFINE_integer("top_k", None, "draw from so many likeliest words")
    flags.DEFINE_float("top_p", None, "draw from the likeliest words that have this mass together")
    flags.DEFINE_integer("beam", None, "search with a beam of this width")
    flags.DEFINE_float(
        "length_power", 0.7,
        "--beam ranks by ln P / n^length_power for n words, the end counted; 0: by ln P",
    )
    flags.DEFINE_integer("seed", 1, "another seed gives other sentences")
    flags.DEFINE_integer("top", 8, "number of likely next words to list")


def main():
    check()
    options, prompts = flags.FLAGS, read_prompts()
    load_tensorflow()
    from tfsoftmax.lm import generation
    from tfsoftmax.lm import runs

    per_prompt = count(options)
    streams = options.beam or min(SIDE_BY_SIDE, per_prompt * len(prompts))
    model, vocabulary, _ = runs.load(options.run, streams=streams, time_steps=1)
    words = dict.fromkeys(word for prompt in prompts for word in prompt)
    if unknown := [word for word in words if word not in vocabulary]:
        print(f"not in the vocabulary, read as <unk>: {' '.join(unknown)}", file=sys.stderr)
    if options.beam:
        search(model, vocabulary, prompts, per_prompt)
    else:
        draw(model, vocabulary, [p for p in prompts for _ in range(per_prompt)])
    if options.prompts is None:
        print()
        top = min(options.top, len(vocabulary))
        print(table(generation.next_words(model, vocabulary, prompts[0], top)))


def draw(model, vocabulary, prompts):
    """Prints a sentence for each prompt, as many at a time as the model has streams."""
    from tfsoftmax.lm import decoding
    from tfsoftmax.lm import generation

    options, streams = flags.FLAGS, model.input.shape[0]
    top_k = 1 if options.greedy else options.top_k
    choice = decoding.NextWordSampler(options.temperature, top_k, options.top_p)
    for start in range(0, len(prompts), streams):
        some = prompts[start : start + streams]
        arguments = (
            model, vocabulary, some + [()] * (streams - len(some)), options.max_words, choice,
            options.seed + (start << 32),
        )
        if len(prompts) == 1:
            write(some[0], (step[0] for step in generation.stream(*arguments)))
            return
        for prompt, words in zip(some, generation.complete(*arguments)):
            write(prompt, words)


def write(prompt, words):
    """Prints a sentence, each word as soon as it is known."""
    print(" ".join(prompt), end="", flush=True)
    number = 0
    for word in filter(None, words):
        print(" " * bool(prompt or number) + word, end="", flush=True)
        number += 1
    print(" …" if number == flags.FLAGS.max_words else "")


def search(model, vocabulary, prompts, per_prompt):
    """Prints the best sentences of a beam for each prompt."""
    from tfsoftmax.lm import generation

    for prompt in prompts:
        found = generation.beam(
            model, vocabulary, prompt, flags.FLAGS.max_words, flags.FLAGS.length_power
        )
        for hypothesis in found[:per_prompt]:
            cut = [] if hypothesis.ended else ["…"]
            print(f"{hypothesis.log_prob:>9.3f} ", *prompt, *hypothesis.words, *cut)


def table(rows):
    """Aligned lines of probability and word, for a list of pairs of word and probability."""
    return "\n".join(["probability  next word", *(f"{p:>11.4%}  {word}" for word, p in rows)])


def read_prompts():
    """The prompts as lists of words: --prompt, or a line each of --prompts."""
    if flags.FLAGS.prompts is None:
        return [flags.FLAGS.prompt.split()]
    if flags.FLAGS.prompts == "-":
        lines = sys.stdin.read().splitlines()
    else:
        with open(flags.FLAGS.prompts, encoding="utf-8") as file:
            lines = file.read().splitlines()
    if not lines:
        raise ValueError(f"`prompts` must have a line. Received: {flags.FLAGS.prompts!r}, empty")
    return [line.split() for line in lines]


def count(options):
    """How many sentences to print for each prompt."""
    if options["count"].value is not None:
        return options["count"].value
    if options.beam:
        return options.beam
    return 1 if options.greedy or options.prompts is not None else 5


def check():
    options = flags.FLAGS
    for name in ("count", "max_words", "top", "beam"):
        value = options[name].value
        if value is not None and value < 1:
            raise ValueError(f"`{name}` must be at least 1. Received: {name}={value}")
    drawing = [n for n in ("temperature", "top_k", "top_p", "seed") if options[n].present]
    for name, others in (("beam", ["greedy", *drawing]), ("greedy", drawing)):
        others = [n for n in others if n != "greedy" or options.greedy]
        if options[name].value and others:
            raise ValueError(f"`{name}` draws nothing: leave out --{others[0]}")
    if options.greedy and (options["count"].value or 1) > 1:
        raise ValueError(
            "`count` must be 1 with --greedy: all were the same. "
            f"Received: count={options['count'].value}"
        )
    if options.beam and (options["count"].value or 1) > options.beam:
        raise ValueError(
            f"`count` must be at most `beam`, {options.beam}. "
            f"Received: count={options['count'].value}"
        )
    if options["length_power"].present and not options.beam:
        raise ValueError("`length_power` belongs to --beam. Received: no beam")
    if options.prompts is not None and options.prompt:
        raise ValueError("`prompt` and `prompts` must not both be given")
