"""Takes the pictures beside this file from a running TensorBoard, in a headless Chromium.

    python -m experiments.results.tensorboard.screenshots http://localhost:6006
"""

import argparse
import pathlib

from experiments.measurements.demo_screenshot import browser_page

HERE = pathlib.Path(__file__).parent
TAGS = "train/(loss|perplexity)|valid/perplexity|norm/global|0_mib|speed"


def time_series(page, address):
    """Loss, perplexity, gradient norm, memory and speed of the run."""
    page.set_viewport_size({"width": 1500, "height": 1040})
    page.goto(f"{address}/?smoothing=0#timeseries")
    page.wait_for_timeout(15_000)
    page.get_by_role("combobox", name="Filter tags (regex)").fill(TAGS)
    page.get_by_role("button", name="Settings").first.click()
    page.wait_for_timeout(5_000)
    page.screenshot(path=HERE / "time_series.png")


def traced_steps(page, address):
    """The profile plugin's trace viewer."""
    page.set_viewport_size({"width": 1500, "height": 1000})
    page.goto(f"{address}/?tag=overview_page#profile")
    page.wait_for_timeout(15_000)
    plugin = page.frames[1]
    plugin.get_by_text("Overview Page").first.click()
    plugin.get_by_role("option", name="Trace Viewer").first.click()
    page.wait_for_timeout(25_000)
    page.screenshot(path=HERE / "trace_viewer.png")


def main():
    """Takes both pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="where TensorBoard answers")
    address = parser.parse_args().address
    for take in (time_series, traced_steps):
        with browser_page() as page:
            take(page, address)


if __name__ == "__main__":
    main()
