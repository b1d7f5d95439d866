"""Writes sentences with a trained model and lists likely next words.

    tfsoftmax generate --run=runs/first --prompt="returns the number of"
    tfsoftmax generate --run=runs/first --greedy
    tfsoftmax generate --run=runs/first --top_k=40 --temperature=0.8 --count=1
    tfsoftmax generate --run=runs/first --top_p=0.9 --prompts=beginnings.txt
    tfsoftmax generate --run=runs/first --beam=8

Words are drawn from the model's distribution. --greedy takes the likeliest word each time,
--top_k and --top_p draw from the likeliest words only, and --beam searches for the likeliest
sentence. With --greedy, --top_k and --beam, adaptive and tree heads find the likeliest words
without computing all.

The sentences continue the prompt and never contain <unk>. A run on pieces (tfsoftmax prepare
--tokenizer) reads and writes text, but --max_words and --top count its pieces. A sentence that ends
in … was cut at --max_words. A single sentence appears word by word as it is drawn. Words of a
prompt are separated by blanks and spelt as in the corpus, including case; the model reads words
that it does not know as <unk>, and the command lists them. Marks such as <s> at its ends are left
out, unless the run is on pieces; inside they are an error. --beam prints ln P of each sentence,
with its end, before it.
"""

import itertools
import sys

from absl import flags

from tfsoftmax.commands import shared_flags
from tfsoftmax.commands.program import load_tensorflow, printable
from tfsoftmax.support.arguments import check_at_least
from tfsoftmax.support.textio import lines

SIDE_BY_SIDE = 64  # the most sentences that are drawn at the same time


def define_flags():
    shared_flags.define_run()
    flags.DEFINE_string("prompt", "", "Words that the sentences begin with.")
    flags.DEFINE_string("prompts", None, "File of prompts, one per line; - for standard input.")
    flags.DEFINE_integer(
        "count", None, "Number of sentences for each prompt. By default 5; 1 with --greedy or "
        "--prompts; all that are found with --beam.",
    )
    flags.DEFINE_integer("max_words", 40, "Number of words after which a sentence is cut.")
    flags.DEFINE_bool("greedy", False, "Take the likeliest word each time.")
    flags.DEFINE_float(
        "temperature", 1.0, "Below one, likely words are drawn more often; above one, less often."
    )
    flags.DEFINE_integer("top_k", None, "Number of likeliest words to draw from.")
    flags.DEFINE_float(
        "top_p", None, "Draw from the fewest likeliest words that together have this probability."
    )
    flags.DEFINE_integer("beam", None, "Width of the beam to search with.")
    flags.DEFINE_float(
        "length_power", 0.7, "With --beam: sentences of n words, the end included, are ranked by "
        "ln P / n^length_power. With 0 they are ranked by ln P.",
    )
    flags.DEFINE_integer("seed", 1, "Seed of the draws. Another seed gives other sentences.")
    flags.DEFINE_integer("top", 8, "Number of likely next words to list after --prompt.")


def main():
    check()
    options, prompts = flags.FLAGS, read_prompts()
    load_tensorflow()
    from tfsoftmax.lm import runs
    from tfsoftmax.lm.generation import Generator
    from tfsoftmax.lm.sentences import unmarked
    from tfsoftmax.support.marks import Marks

    tokenizer, marks = runs.Run(options.run).tokenizer(), Marks()
    prompts = list(tokenizer.encode_all(list(unmarked(prompts, tokenizer, marks))))
    if report := marks.report("prompts", kept=tokenizer.pieces is not None):
        print(f"note: {report}", file=sys.stderr)
    per_prompt = count(options)
    streams = options.beam or min(SIDE_BY_SIDE, per_prompt * len(prompts))
    model, vocabulary, _ = runs.load(options.run, streams=streams, time_steps=1)
    words = dict.fromkeys(word for prompt in prompts for word in prompt)
    if unknown := [word for word in words if word not in vocabulary]:
        listed = printable(" ".join(unknown))
        print(f"not in the vocabulary, read as <unk>: {listed}", file=sys.stderr)
    generator = Generator(model, vocabulary)
    if options.beam:
        search(generator, tokenizer, prompts, per_prompt)
    else:
        draw(generator, tokenizer, [p for p in prompts for _ in range(per_prompt)], streams)
    if options.prompts is None:
        print()
        print(table(generator.next_words(prompts[0], min(options.top, len(vocabulary)))))


def draw(generator, tokenizer, prompts, streams):
    """Prints a sentence for each prompt, drawing as many at a time as the model has streams."""
    from tfsoftmax.lm.decoding import NextWordSampler

    options = flags.FLAGS
    top_k = 1 if options.greedy else options.top_k
    sampler = NextWordSampler(options.temperature, top_k, options.top_p)
    for start in range(0, len(prompts), streams):
        part = prompts[start : start + streams]
        padded = part + [()] * (streams - len(part))
        arguments = padded, options.max_words, sampler, options.seed + (start << 32)
        if len(prompts) == 1:
            write(tokenizer, part[0], (step[0] for step in generator.stream(*arguments)))
            return
        for prompt, words in zip(part, generator.complete(*arguments), strict=False):
            write(tokenizer, prompt, words)


def write(tokenizer, prompt, words):
    """Prints a sentence, each word or piece as soon as it is known."""
    drawn = itertools.count()
    words = (word for word, _ in zip(filter(None, words), drawn))
    for chunk in tokenizer.chunks(itertools.chain(prompt, words)):
        print(printable(chunk), end="", flush=True)
    print(" …" if next(drawn) == flags.FLAGS.max_words else "")


def search(generator, tokenizer, prompts, per_prompt):
    """Prints the best sentences of a beam for each prompt."""
    for prompt in prompts:
        found = generator.beam(prompt, flags.FLAGS.max_words, flags.FLAGS.length_power)
        for hypothesis in found[:per_prompt]:
            text = printable(tokenizer.decode([*prompt, *hypothesis.words]))
            print(f"{hypothesis.log_prob:>9.3f} ", text + " …" * (not hypothesis.ended))


def table(rows):
    """Aligned lines of probability and word, for a list of pairs of word and probability."""
    listed = [f"{p:>11.4%}  {printable(word)}" for word, p in rows]
    return "\n".join(["probability  next word", *listed])


def read_prompts():
    """The places and the prompts: that of --prompt, or one for each line of --prompts."""
    if flags.FLAGS.prompts is None:
        return [("`prompt`", flags.FLAGS.prompt)]
    prompts = list(lines(flags.FLAGS.prompts))
    if not prompts:
        raise ValueError(
            f"`prompts` must have a line. Received: {flags.FLAGS.prompts!r}, which is empty"
        )
    return prompts


def count(options):
    """How many sentences to print for each prompt."""
    if options["count"].value is not None:
        return options["count"].value
    if options.beam:
        return options.beam
    return 1 if options.greedy or options.prompts is not None else 5


def check():
    """Raises ValueError if flags are out of their range or exclude each other."""
    options = flags.FLAGS
    given = options["count"].value
    check_at_least(
        1, count=given, max_words=options.max_words, top=options.top, beam=options.beam
    )
    if not -(2**31) <= options.seed < 2**31:
        raise ValueError(f"`seed` must be of 32 bits. Received: seed={options.seed}")
    shared_flags.check_beam(options.beam)
    drawing = [n for n in ("temperature", "top_k", "top_p", "seed") if options[n].present]
    for name, others in (("beam", ["greedy", *drawing]), ("greedy", drawing)):
        others = [n for n in others if n != "greedy" or options.greedy]
        if options[name].value and others:
            raise ValueError(
                f"`{others[0]}` must not be given with --{name}, which draws nothing. "
                f"Received: {others[0]}={options[others[0]].value}"
            )
    if options.greedy and (given or 1) > 1:
        raise ValueError(
            "`count` must be 1 with --greedy, since all sentences would be the same. "
            f"Received: count={given}"
        )
    if options.beam and (given or 1) > options.beam:
        raise ValueError(
            f"`count` must be at most `beam`, {options.beam}. Received: count={given}"
        )
    if options["length_power"].present and not options.beam:
        raise ValueError(
            "`length_power` may be given with --beam only. "
            f"Received: length_power={options.length_power}"
        )
    if options.prompts is not None and options["top"].present:
        raise ValueError(
            f"`top` must not be given with --prompts, which lists none. Received: top={options.top}"
        )
    if options.prompts is not None and options.prompt:
        raise ValueError(
            "`prompt` and `prompts` must not both be given. "
            f"Received: prompt={options.prompt!r}, prompts={options.prompts!r}"
        )
