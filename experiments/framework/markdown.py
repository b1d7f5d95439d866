"""Markdown that programs write: tables, and whole pages."""

import os


def table(rows, text_columns=1):
    """A table as Markdown.

    Args:
        rows: list of lists of str, the headings first.
        text_columns: number of columns on the left that hold text; the others hold numbers, which
            are aligned right.

    Returns:
        The lines of the table, as one str.
    """
    headings, *others = rows
    rule = ["---"] * text_columns + ["---:"] * (len(headings) - text_columns)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (headings, rule, *others))


def write(path, *blocks):
    """Writes a page of blocks of text with blank lines between them; returns its text.

    Args:
        path: `Path` of the page, whose folder is made if it is missing. An older page stays until
            the new one is complete.
        blocks: list of str; empty ones are left out.
    """
    text = "\n\n".join(block for block in blocks if block) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
    return text
