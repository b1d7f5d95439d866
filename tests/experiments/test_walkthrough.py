import pytest

from experiments.framework import walkthrough

PAGE = """\
# A page

```console
$ printf '%s\\n' one \\
    two
what an earlier run printed

$ tfsoftmax train --help | sed -n 1p
```

```bash
$ echo left alone
```
"""


def test_the_output_of_commands_replaces_what_stood_below_them(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("tfsoftmax train", "python -m tfsoftmax_command train"))
    walkthrough.main(page)
    lines = page.read_text().splitlines()
    assert lines[2:9] == ["```console", "$ printf '%s\\n' one \\", "    two", "one", "two", "",
                          "$ python -m tfsoftmax_command train --help | sed -n 1p"]
    assert lines[9].startswith("Usage: tfsoftmax train")
    assert lines[-2:] == ["$ echo left alone", "```"]


def test_a_command_that_fails_leaves_the_page_as_it_was(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\n$ false\n```\n")
    with pytest.raises(SystemExit, match="error: exit status 1 of false"):
        walkthrough.main(page)
    assert page.read_text() == "```console\n$ echo one\n$ false\n```\n"
