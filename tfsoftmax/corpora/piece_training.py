"""Trains models of pieces on the text of a corpus."""

from collections.abc import Callable, Iterable, Sequence

from tfsoftmax.support.arguments import refusal
from tfsoftmax.support.extras import imported


def train_sentencepiece(
    blocks: Iterable[Sequence[str]], report: Callable[[int], None], path: str, kind: str,
    size: int, seed: int,
) -> None:
    """Trains a model of sentencepiece with byte fallback that changes no character.

    Args:
        blocks: lists of sentences. Of more than a million, a random sample of a million counts.
        report: a function that is called with the number of sentences in each block.
        path: the file to write.
        kind: "unigram" or "bpe".
        size: the number of pieces, `<unk>` and the 256 bytes among them. There are fewer if the
            text does not have as many.
        seed: the seed of the sample.

    Raises:
        RuntimeError: sentencepiece is not installed.
        ValueError: the size is too small for the characters of the text.
        Exception: whatever `blocks` raises.
    """
    package = imported("sentencepiece", "`tokenizer`")
    package.set_random_generator_seed(seed)

    failed = []  # sentencepiece makes a RuntimeError of its own of each error of the text

    def sentences():
        try:
            for block in blocks:
                report(len(block))
                yield from filter(str.strip, block)
        except (Exception, KeyboardInterrupt) as error:
            failed.append(error)
            raise

    try:
        with open(path, "wb") as file:
            package.SentencePieceTrainer.train(
                sentence_iterator=sentences(), model_writer=file, model_type=kind, vocab_size=size,
                hard_vocab_limit=False, byte_fallback=True, normalization_rule_name="identity",
                remove_extra_whitespaces=False, bos_id=-1, eos_id=-1,
                max_sentence_length=1 << 30, input_sentence_size=1_000_000, minloglevel=2,
            )
    except RuntimeError as error:
        if failed:
            raise failed[0] from None
        reason = str(error).rpartition("] ")[2] or error
        raise refusal(
            "max_vocab", f"suit the text for a tokenizer of {kind} pieces",
            received=f"max_vocab={size + 1}, of which sentencepiece says: {reason}"
        ) from None
