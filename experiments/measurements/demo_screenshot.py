"""Takes the picture of docs/demo.md: the page of `tfsoftmax demo` in a real browser.

    python -m experiments.measurements.demo_screenshot --runs=runs/class,runs/tree \\
        --text="returns the number of" --out=docs/images/demo.png

It needs gradio and playwright (pip install gradio playwright), and a Chromium on the
PATH; it downloads none.
"""

import argparse
import contextlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator

CHROMIUM = "chromium", "chromium-browser", "google-chrome", "chrome"
PATIENCE = 90_000  # milliseconds, of which the first answers need some to trace the models


def main(argv=None):
    """Serves the page, types a text, opens a tab, and saves what is seen."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", required=True)
    parser.add_argument("--text", default="returns the number of")
    parser.add_argument("--tab", default="Next words")
    parser.add_argument("--word", help="the word to show in the tab of clusters or trees")
    parser.add_argument("--out", required=True)
    parser.add_argument("--height", type=int, default=1060)
    options = parser.parse_args(argv)
    with served(options.runs) as address, browser_page(options.height) as page:
        page.goto(address)
        read(page, options.text)
        open_tab(page, options.tab, options.word)
        page.mouse.move(0, 0)
        page.wait_for_timeout(1000)  # for what fades in
        page.screenshot(path=options.out)


@contextlib.contextmanager
def served(runs: str) -> Iterator[str]:
    """The address of `tfsoftmax demo --run=RUNS`, which is stopped at the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tfsoftmax_command", "demo", f"--run={runs}", f"--port={port}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split(" ")[0]
        if not address:
            raise RuntimeError(f"the page was not served: exit status {process.wait()}")
        yield address
    finally:
        process.terminate()
        process.communicate()


@contextlib.contextmanager
def browser_page(height: int = 900) -> Iterator:
    """A page of a browser without a window. `page.requested` lists the addresses that it asks."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1180, "height": height})
        page.set_default_timeout(PATIENCE)
        page.requested = []
        page.on("request", lambda request: page.requested.append(request.url))
        yield page
        browser.close()


def chromium() -> str | None:
    """The path of a Chromium on the PATH, or None."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


def read(page, text: str) -> None:
    """Types a text and waits until the tab that is open answers it."""
    wait_for_note(page, ":")  # of the text before
    page.fill("#text textarea, #text input", text)
    page.click("#read")
    wait_for_note(page, f"After “{text}”" if text else "At the beginning of a sentence")


def wait_for_note(page, text: str) -> None:
    """Waits until the note of a run that can be seen has a text."""
    page.wait_for_function(
        "text => [...document.querySelectorAll('textarea[disabled], input[disabled]')].some("
        "note => note.checkVisibility() && note.value.includes(text))", arg=text
    )


def open_tab(page, title: str, word: str | None = None) -> None:
    """Opens a tab and, for clusters and trees, asks for a word."""
    page.get_by_role("tab", name=title).click()
    if word is not None:
        box = page.locator(f"#{title.lower()} textarea, #{title.lower()} input")
        box.fill(word)
        box.press("Enter")
        wait_for_note(page, f"P of “{word}”" if title == "Trees" else "how likely")


if __name__ == "__main__":
    main()
