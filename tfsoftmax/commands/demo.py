"""Serves a web page that compares trained models on text that you type.

    tfsoftmax demo --run=runs/first
    tfsoftmax demo --run=runs/full,runs/class,runs/tree --port=7861

Open the address that is printed in a browser. All runs read the beginning of a sentence that you
type, and the page shows their results side by side: the likeliest next words, ln P of the text as a
sentence and of each word, sentences that continue it (greedy, beam, or sampled), the time of the
output layer's call, and its parameters. For output layers with clusters, classes or bands it shows
their words and current probabilities, and for trees the branches on the path to a word. All
probabilities are exact. Click a row of a table to continue with its word.

Words are separated by blanks and spelt as in the corpus; the models read words that they do not
know as <unk>. The box "lower case" is ticked by default unless more than a hundredth of the words
of a vocabulary have capital letters. Runs may have different vocabularies. For a run that cannot be
read, for example because it has no checkpoint yet, the page shows a message.

The page can be opened only from this machine (from another one: ssh -L 7860:localhost:7860 HOST),
and needs no network: it loads nothing and sends nothing. Stop it with Ctrl-C. It needs gradio: pip
install gradio.
"""

import dataclasses
import time

from tfsoftmax.commands.program import load_gradio, load_tensorflow
from tfsoftmax.support.arguments import expect, refusing


@dataclasses.dataclass(frozen=True)
class DemoOptions:
    """Runs and page.

    Attributes:
        run: Directories of training runs.
        port: Port of the page on this machine.
    """

    run: tuple
    port: int = 7860

    def __post_init__(self):
        expect(1 <= self.port < 2**16, "port", "lie in [1, 65536)", self.port)


FONT = ("system-ui", "sans-serif")  # of the machine, so that the browser loads none


def main(options: DemoOptions):
    gr = load_gradio()  # before TensorFlow, to fail at once
    load_tensorflow()
    from tfsoftmax.commands.demo_page import Page, blocks
    from tfsoftmax.runs.shown_run import load_runs

    page = blocks(Page(load_runs(options.run)))
    theme = gr.themes.Default(primary_hue="indigo", font=FONT, font_mono=FONT)
    with refusing(OSError, "port", "be free", received={"port": options.port}):
        _, address, _ = page.launch(
            server_name="127.0.0.1", server_port=options.port, prevent_thread_lock=True, quiet=True,
            inbrowser=False, share=False, ssr_mode=False, footer_links=[], theme=theme,
            show_error=True,
        )
    print(f"{address} (Ctrl-C stops it)", flush=True)
    try:
        while True:
            time.sleep(3600)
    finally:
        page.close(verbose=False)
