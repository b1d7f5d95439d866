"""Takes the picture of docs/demo.md: the page of `tfsoftmax demo` in a real browser.

    python -m experiments.measurements.demo_screenshot --runs=runs/class,runs/tree \\
        --text="the old man said to" --out=docs/images/demo.png

It needs gradio and playwright (pip install 'tfsoftmax[demo]' playwright), and a Chromium on the
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
    parser.add_argument("--text", default="the old man said to")
    parser.add_argument("--tab", default="Next words")
    parser.add_argument("--word", help="the word whose path to show in the tab of trees")
    parser.add_argument("--run", help="the run to choose in the tab")
    parser.add_argument("--out", required=True)
    parser.add_argument("--height", type=int, default=790)
    options = parser.parse_args(argv)
    with served(options.runs) as address, browser_page(options.height) as page:
        page.goto(address)
        read(page, options.text)
        open_tab(page, options.tab, options.run, options.word)
        page.mouse.move(0, 0)
        page.wait_for_timeout(500)  # for what fades in
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
    """Types a text and waits until all tabs answer it."""
    page.wait_for_selector("#next_words .bar", state="attached")
    page.fill("#text textarea, #text input", text)
    page.click("#read")
    wait_for_answer(page, text)


def wait_for_answer(page, text: str) -> None:
    """Waits until all tabs that answer at once have answered a text."""
    place = f", after “{text}”:" if text else ", at the beginning of a sentence:"
    for tab in page.locator("#next_words, #sentence, #group_shown, #tree_shown").all():
        tab.get_by_text(place).wait_for(state="attached")


def open_tab(page, title: str, run: str | None = None, word: str | None = None) -> None:
    """Opens a tab, chooses a run in it and, for trees, asks for a word."""
    page.get_by_role("tab", name=title).click()
    name = {"Clusters": "group", "Trees": "tree"}.get(title)
    shown = page.locator(f"#{name}_shown")
    if run is not None:
        page.locator(f"#{name}_run input").click()
        page.get_by_role("option", name=run).click()
        shown.get_by_text(f"{run}, ").wait_for()
    if word is not None:
        page.fill(f"#{name}_word textarea, #{name}_word input", word)
        page.click(f"#{name}_show")
        shown.get_by_text(f"P of “{word}”").wait_for()


if __name__ == "__main__":
    main()
