"""A module imports only from lower floors, and nothing imports in a circle."""

import ast
import graphlib
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# A module may import from lower floors, and within its own folder.
FLOORS = (
    ("support",),
    ("ops",),
    ("ngrams",),
    ("partitions", "losses.labels", "losses.logits_tag", "corpora", "nbest"),
    ("samplers", "layers", "losses", "metrics", "distributions"),
    ("sharding",),
    ("optimizers", "heads"),
    ("survey",),
    ("profiling", "retrieval"),
    ("lm",),
    ("runs",),
    ("hub", "commands"),
    ("pairs",),
)
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS) for name in names}
WITHOUT_TENSORFLOW = (
    "support.whole_files", "support.textio", "support.arguments", "support.extras",
    "support.version", "support.vocabulary", "support.hardware", "layers.names",
    "lm.config", "support.manifests",
    "sharding.local_workers", "lm.pretrained", "partitions.ranks", "partitions.cost_model",
    "partitions.cutoffs", "partitions.calibration", "partitions.tree_builders",
    "partitions.classes", "partitions.brown", "partitions.splits", "partitions.kmeans",
    "partitions.assignment", "corpora.catalogue", "corpora.config", "corpora.records",
    "corpora.splits",
    "corpora.manifest", "nbest.lists", "nbest.transcripts", "nbest.word_errors",
    "nbest.rescoring", "support.resampling", "pairs.rouge", "pairs.stems", "pairs.config",
    "pairs.presets", "pairs.prepare", "pairs.corpus", "pairs.texts", "commands.program",
)


def modules():
    """{name below tfsoftmax: path} of every module; a folder's own name is its __init__."""
    found = {}
    for path in sorted(ROOT.glob("tfsoftmax/**/*.py")):
        parts = path.relative_to(ROOT / "tfsoftmax").with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__").removesuffix("__init__")] = path
    return found


MODULES = modules()


def imported(path):
    """Names below tfsoftmax of the modules that a file imports, lazy imports included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("tfsoftmax."):
                name = name.removeprefix("tfsoftmax.")
                yield name if name in MODULES else name.rpartition(".")[0]


IMPORTS = {name: set(imported(path)) for name, path in MODULES.items() if name}


def floor_of(module):
    names = [n for n in FLOOR_OF if module == n or module.startswith(n + ".")]
    return FLOOR_OF[max(names, key=len)] if names else None


def test_every_module_has_a_floor():
    assert [name for name in IMPORTS if floor_of(name) is None] == []


@pytest.mark.parametrize("module", IMPORTS)
def test_imports_point_down(module):
    folder = module.partition(".")[0]
    up = [
        other for other in IMPORTS[module]
        if other.partition(".")[0] != folder and floor_of(other) >= floor_of(module)
    ]
    assert up == []


def test_no_circles():
    """Not even by imports inside functions. A package stands above the modules that it lists."""
    try:
        list(graphlib.TopologicalSorter(IMPORTS).static_order())
    except graphlib.CycleError as error:
        raise AssertionError(f"circle: {' -> '.join(error.args[1])}") from None


def test_light_modules_do_not_load_tensorflow():
    names = ", ".join(f"tfsoftmax.{m}" for m in WITHOUT_TENSORFLOW)
    code = f"import sys, tfsoftmax_command, {names}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
