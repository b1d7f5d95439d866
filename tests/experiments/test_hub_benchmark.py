"""The page about fine-tuning models of keras_hub."""

import json
import pathlib

from experiments.benchmarks import hub


def test_the_page_of_the_benchmark_is_made_of_its_rows():
    results = pathlib.Path(hub.__file__).parent.parent / "results" / "hub"
    rows = [json.loads(line) for line in (results / "rows.jsonl").read_text().splitlines()]
    scale = hub.Scale(rounds=len(rows) // len(hub.VARIANTS), steps=2)
    page = (results / "README.md").read_text(encoding="utf-8")
    assert "\n\n".join(hub.page(scale, rows)) + "\n" == page
