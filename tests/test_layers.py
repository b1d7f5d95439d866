"""Arrows between modules point down: a module imports from lower floors only."""

import ast
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
FLOORS = {
    "tfsoftmax.hardware": -1,
    "tfsoftmax.vocabulary": 0, "tfsoftmax.config": 0, "tfsoftmax.pretrained": 0,
    "tfsoftmax.ops": 0, "tfsoftmax.head_call": 0,
    "tfsoftmax.decoding": 0,
    "tfsoftmax.nbest": 0, "tfsoftmax.word_errors": 0,
    "tfsoftmax.samplers": 0, "tfsoftmax.partitions": 0,
    "tfsoftmax.corpora": 1, "tfsoftmax.recurrent": 1, "tfsoftmax.embedding": 1,
    "tfsoftmax.adaptive_embedding": 1, "tfsoftmax.rescoring": 1,
    "tfsoftmax.heads": 1, "tfsoftmax.optimizers": 1,
    "tfsoftmax.memory": 0, "tfsoftmax.memory_timeline": 0, "tfsoftmax.parts": 2,
    "tfsoftmax.executions": 3, "tfsoftmax.profiling": 4, "tfsoftmax.callbacks": 3,
    "tfsoftmax.losses": 2, "tfsoftmax.metrics": 2, "tfsoftmax.clusters": 2,
    "tfsoftmax.language_model": 3, "tfsoftmax.runs": 4,
    "tfsoftmax.run_description": 5, "tfsoftmax.evaluation": 5, "tfsoftmax.generation": 5,
    "tfsoftmax.scoring": 5, "tfsoftmax.export": 5,
    "tfsoftmax.training": 6,
    "tools": 9, "experiments": 10,
}
PACKAGES = (  # free within themselves
    "tfsoftmax.ops", "tfsoftmax.samplers", "tfsoftmax.partitions", "tfsoftmax.corpora",
    "tfsoftmax.heads",
)
WITHOUT_TENSORFLOW = (
    "vocabulary", "config", "pretrained", "hardware", "partitions.ranks", "partitions.cutoffs",
    "partitions.calibration", "partitions.trees", "partitions.classes",
    "partitions.brown", "partitions.splits", "partitions.kmeans", "partitions.assignment",
    "corpora.config", "corpora.records", "nbest", "word_errors", "rescoring",
)


def part_of(module):
    """The entry of FLOORS that a module belongs to, or None for a foreign one."""
    names = [n for n in FLOORS if module == n or module.startswith(n + ".")]
    return max(names, key=len, default=None)


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def project_modules():
    for path in sorted(ROOT.glob("tfsoftmax/**/*.py")) + sorted(ROOT.glob("tools/*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if module != "tfsoftmax.__init__":
            yield path, module.removesuffix(".__init__")


def test_every_module_has_a_floor():
    assert [m for _, m in project_modules() if part_of(m) is None] == []


def test_imports_point_down():
    wrong = []
    for path, module in project_modules():
        own = part_of(module)
        for imported in imports(path):
            other = part_of(imported)
            within = own == other and own in PACKAGES
            if other and not within and FLOORS[other] >= FLOORS[own] < 9:
                wrong.append(f"{module} imports {imported}")
    assert wrong == []


def test_light_modules_do_not_load_tensorflow():
    names = ", ".join(f"tfsoftmax.{m}" for m in WITHOUT_TENSORFLOW)
    code = f"import sys, tfsoftmax, {names}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
