"""Adds to the site what the repository keeps elsewhere: its pages, results, examples and modules.

Files keep their paths, so that links between them hold as they stand. Nothing is executed: the
output of the examples is the one recorded in experiments/examples/README.md.
"""

import pathlib
import re

import griffe
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parent.parent
PAGES = {"README.md": "index.md", **{
    p: p for p in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")
}}
RESULTS = ("*.md", "*.png", "*.csv", "*.txt", "*.json", "*.py")
EXAMPLES = ROOT / "experiments" / "examples"
FOLDERS = (
    "losses", "heads", "survey", "distributions", "layers", "metrics", "optimizers", "samplers",
    "partitions", "ngrams", "ops", "corpora", "lm", "runs", "pairs", "nbest", "profiling",
    "retrieval", "sharding", "support",
)
TOP = ("hub",)
OTHERS = "Everything else"
PURPOSES = {  # folder or module: the heading of its names on the page of all names
    "heads": "Output layers", "survey": "Output layers", "losses": "Losses and metrics",
    "metrics": "Losses and metrics", "layers": "Other layers", "retrieval": "Retrieval",
    "lm": "Language models", "pairs": "Language models", "vocabulary": "Language models",
}
MODULE = re.compile(r"\]\(\.\./tfsoftmax/(\w+)/(\w+)\.py\)")
CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)


def on_config(config):
    api = [{"All names": "api/index.md"}]
    for folder in FOLDERS:
        modules = [
            {name: f"api/{folder}/{name}.md"} for name in modules_of(folder) if name != "base"
        ]
        api.append({folder: [{"overview": f"api/{folder}/index.md"}, *modules]})
    api += [{name: f"api/{name}.md"} for name in TOP]
    config.nav.insert(-1, {"API": api})


def on_files(files, config):
    def add(uri, **source):
        files.append(File.generated(config, uri, **source))

    for page, uri in PAGES.items():
        add(uri, abs_src_path=str(ROOT / page))
    for pattern in RESULTS:
        for path in sorted(ROOT.glob(f"experiments/**/{pattern}")):
            add(path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
    for script in sorted(EXAMPLES.glob("*.py")):
        add(f"experiments/examples/{script.stem}.md", content=example_page(script))
    for name in TOP:
        add(f"api/{name}.md", content=f"# {name}\n\n::: tfsoftmax.{name}\n")
    for folder in FOLDERS:
        add(f"api/{folder}/index.md", content=folder_page(folder))
        for name in modules_of(folder):
            page = f"# {folder}.{name}\n\n::: tfsoftmax.{folder}.{name}\n"
            add(f"api/{folder}/{name}.md", content=page)
    add("api/index.md", content=index_page())


def on_page_markdown(markdown, page, **_):
    """Mends links: the repository's pages and the guides lie side by side on the site."""
    markdown = markdown.replace("](../results)", "](../results/README.md)")
    if page.file.src_uri.endswith("which_head.md"):  # a module's source stands for its page
        markdown = MODULE.sub(r"](api/\1/\2.md)", markdown)
    if page.file.src_uri in PAGES.values():
        return markdown.replace("](docs/", "](")
    if "/" in page.file.src_uri:
        return re.sub(r"\]\(((?:\.\./)+)docs/", r"](\1", markdown)
    return markdown.replace("](../README.md", "](index.md").replace("](../", "](")


def modules_of(folder):
    paths = sorted((ROOT / "tfsoftmax" / folder).glob("[!_]*.py"))
    return [path.stem for path in paths]


def example_page(script):
    """A script of cells, `# %%`, as a page: text, code, and the output that was recorded."""
    _, *cells = CELL.split(script.read_text(encoding="utf-8"))
    parts = [f"# {page_title(script.stem)}"]
    for kind, cell in zip(cells[::2], cells[1::2], strict=True):
        if "[markdown]" in kind:
            parts.append(re.sub(r"^# ?", "", cell.strip(), flags=re.MULTILINE))
        elif cell.strip():
            parts.append(f"```python\n{cell.strip()}\n```")
    return "\n\n".join([*parts, f"## What it prints\n\n{recorded_output(script.stem)}"]) + "\n"


def recorded_output(example):
    """What the README of the examples shows below the command, its table as a table."""
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    command = re.escape(f"$ python -m experiments.examples.{example}\n")
    return re.search(f"```console\n{command}(.*?)```", readme, re.DOTALL)[1]


def page_title(example):
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    before = readme[: readme.index(f"examples.{example}\n")]
    return re.findall(r"^## (.*)$", before, re.MULTILINE)[-1]


def folder_page(folder):
    """A folder's description, its modules, and what its `__init__` defines itself."""
    package = griffe_package()[folder]
    lines = [f"# {folder}", "", f"::: tfsoftmax.{folder}", "", "| module | |", "|---|---|"]
    for name in modules_of(folder):
        lines.append(f"| [`{name}`]({name}.md) | {summary(package[name])} |")
    return "\n".join(lines) + "\n"


def index_page():
    """Every name of `tfsoftmax` by its purpose, with a link to its page."""
    package, groups = griffe_package(), {title: [] for title in PURPOSES.values()}
    for name in sorted(package.exports, key=str.lower):
        found = package[name]
        target = found.final_target if found.is_alias else found
        places = [PURPOSES[p] for p in target.path.split(".")[1:3] if p in PURPOSES]
        purpose = "Packages and modules" if target.is_module else (places or [OTHERS])[0]
        groups.setdefault(purpose, []).append(f"| {link(name, target)} | {summary(target)} |")
    lines = ["# All names", "", "Every name here is an attribute of `tfsoftmax`."]
    for title, rows in groups.items():
        lines += ["", f"## {title}", "", "| name | |", "|---|---|", *rows] if rows else []
    return "\n".join(lines) + "\n"


def link(name, target):
    """To a class or function on its module's page, or to the page if it is a module."""
    if not target.is_module and target.docstring:
        return f"[`{name}`][{target.canonical_path}]"
    page = target.module.path.removeprefix("tfsoftmax.").replace(".", "/")
    return f"[`{name}`]({page}/index.md)" if page in FOLDERS else f"[`{name}`]({page}.md)"


def summary(found):
    """The first line of a docstring, for a cell of a table."""
    return found.docstring.value.partition("\n")[0].replace("|", "\\|") if found.docstring else ""


def griffe_package():
    global _package
    if _package is None:
        _package = griffe.load("tfsoftmax", search_paths=[str(ROOT)], resolve_aliases=True)
    return _package


_package = None
