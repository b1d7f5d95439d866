"""Writes sentences with a trained model and lists likely next words.

    tfsoftmax generate --run=runs/first --prompt="returns the number of"
    tfsoftmax generate --run=runs/first --greedy
    tfsoftmax generate --run=runs/first --top_k=40 --temperature=0.8 --count=1
    tfsoftmax generate --run=runs/first --top_p=0.9 --prompts=beginnings.txt
    tfsoftmax generate --run=runs/first --beam=8

Words are drawn from the model's distribution. --greedy takes the likeliest word each time,
--top_k and --top_p draw from the likeliest words only, and --beam searches for the likeliest
sentence. With --greedy, --top_k and --beam, adaptive and tree heads find the likeliest words
without computing all probabilities.

The sentences continue the prompt and never contain <unk>. A run on pieces (tfsoftmax prepare
--tokenizer) reads and writes text, but --max_words and --top count its pieces. A sentence that ends
in … was cut at --max_words. A single sentence appears word by word as it is drawn. Words of a
prompt are separated by blanks and spelt as in the corpus, including case; the model reads words
that it does not know as <unk>, and the command lists them. Sentence markers such as <s> at the
beginning and end of a prompt are left out, unless the run is on pieces; elsewhere they are an
error. --beam prints ln P of each sentence, including its end, before the sentence.
"""

import dataclasses
import itertools
import sys

from tfsoftmax.commands.program import load_tensorflow, printable
from tfsoftmax.commands.shared import check_beam
from tfsoftmax.support.arguments import check_at_least, expect
from tfsoftmax.support.conditions import excludes, needs
from tfsoftmax.support.textio import lines

SIDE_BY_SIDE = 64  # the most sentences that are drawn at the same time
_DRAWN = (excludes("beam"), excludes("greedy"))  # a beam and the likeliest word draw nothing


@dataclasses.dataclass(frozen=True)
class GenerateOptions:
    """Run, prompts and how words are chosen.

    Attributes:
        run: Directory of a training run.
        prompt: Words that the sentences begin with.
        prompts: File of prompts, one per line; - for standard input.
        count: Number of sentences for each prompt. By default 5; 1 with --greedy or --prompts; all
            that are found with --beam.
        max_words: Number of words after which a sentence is cut.
        greedy: Take the likeliest word each time.
        temperature: Below one, likely words are drawn more often; above one, less often.
        top_k: Number of likeliest words to draw from.
        top_p: Draw from the fewest likeliest words that together have this probability.
        beam: Width of the beam to search with.
        length_power: Sentences of n words, the end included, are ranked by ln P / n^length_power.
            With 0 they are ranked by ln P.
        seed: Seed of the draws. Another seed gives other sentences.
        top: Number of likely next words to list after --prompt.
    """

    NEEDS = {
        "temperature": _DRAWN, "top_k": _DRAWN, "top_p": _DRAWN, "seed": _DRAWN,
        "greedy": excludes("beam"), "length_power": needs("beam"), "top": excludes("prompts"),
        "prompt": excludes("prompts"),
    }

    run: str
    prompt: str = ""
    prompts: str | None = None
    count: int | None = None
    max_words: int = 40
    greedy: bool = False
    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    beam: int | None = None
    length_power: float = 0.7
    seed: int = 1
    top: int = 8

    def __post_init__(self):
        check_at_least(1, count=self.count, max_words=self.max_words, top=self.top, beam=self.beam)
        expect(-(2**31) <= self.seed < 2**31, "seed", "be of 32 bits", self.seed)
        check_beam(self.beam)
        expect(not self.greedy or (self.count or 1) <= 1, "count",
               "be 1 with --greedy, since all sentences would be the same", self.count)
        expect(not self.beam or (self.count or 1) <= self.beam, "count",
               f"be at most `beam`, {self.beam}", self.count)

    @property
    def per_prompt(self) -> int:
        """How many sentences to print for each prompt."""
        alone = self.greedy or self.prompts is not None
        return self.count or self.beam or (1 if alone else 5)


def main(options: GenerateOptions):
    prompts = read_prompts(options)
    load_tensorflow()
    from tfsoftmax.lm.generation import Generator
    from tfsoftmax.lm.sentences import unmarked
    from tfsoftmax.runs import runs
    from tfsoftmax.support.marks import Marks

    tokenizer = runs.Run(options.run).tokenizer()
    marks = Marks(are_text=tokenizer.pieces is not None)
    prompts = list(tokenizer.encode_all(list(unmarked(prompts, marks))))
    if report := marks.report("prompts"):
        print(f"note: {report}", file=sys.stderr)
    streams = options.beam or min(SIDE_BY_SIDE, options.per_prompt * len(prompts))
    model, vocabulary, _ = runs.load(options.run, streams=streams, time_steps=1)
    words = dict.fromkeys(word for prompt in prompts for word in prompt)
    if unknown := [word for word in words if word not in vocabulary]:
        listed = printable(" ".join(unknown))
        print(f"not in the vocabulary, read as <unk>: {listed}", file=sys.stderr)
    generator = Generator(model, vocabulary)
    if options.beam:
        search(generator, tokenizer, prompts, options)
    else:
        repeated = [prompt for prompt in prompts for _ in range(options.per_prompt)]
        draw(generator, tokenizer, repeated, streams, options)
    if options.prompts is None:
        print()
        print(table(generator.next_words(prompts[0], min(options.top, len(vocabulary)))))


def draw(generator, tokenizer, prompts, streams, options):
    """Prints a sentence for each prompt, drawing as many at a time as the model has streams."""
    from tfsoftmax.lm.decoding import NextWordSampler

    most = options.max_words
    top_k = 1 if options.greedy else options.top_k
    sampler = NextWordSampler(options.temperature, top_k, options.top_p)
    for start in range(0, len(prompts), streams):
        part = prompts[start : start + streams]
        padded = part + [()] * (streams - len(part))
        arguments = padded, most, sampler, options.seed + (start << 32)
        if len(prompts) == 1:
            write(tokenizer, part[0], (step[0] for step in generator.stream(*arguments)), most)
            return
        for prompt, words in zip(part, generator.complete(*arguments), strict=False):
            write(tokenizer, prompt, words, most)


def write(tokenizer, prompt, words, most):
    """Prints a sentence, each word or piece as soon as it is known."""
    drawn = itertools.count()
    words = (word for word, _ in zip(filter(None, words), drawn))
    for chunk in tokenizer.chunks(itertools.chain(prompt, words)):
        print(printable(chunk), end="", flush=True)
    print(" …" if next(drawn) == most else "")


def search(generator, tokenizer, prompts, options):
    """Prints the best sentences of a beam for each prompt."""
    for prompt in prompts:
        found = generator.beam(prompt, options.max_words, options.length_power)
        for hypothesis in found[: options.per_prompt]:
            text = printable(tokenizer.decode([*prompt, *hypothesis.words]))
            print(f"{hypothesis.log_prob:>9.3f} ", text + " …" * (not hypothesis.ended))


def table(rows):
    """Aligned lines of probability and word, for a list of pairs of word and probability."""
    listed = [f"{p:>11.4%}  {printable(word)}" for word, p in rows]
    return "\n".join(["probability  next word", *listed])


def read_prompts(options):
    """The places and the prompts: that of --prompt, or one for each line of --prompts."""
    if options.prompts is None:
        return [("`prompt`", options.prompt)]
    prompts = list(lines(options.prompts))
    expect(prompts, "prompts", "have a line", received=f"{options.prompts!r}, which is empty")
    return prompts
