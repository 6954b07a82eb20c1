"""`streamactors docs`: the pages, also where only the wheel is."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs import generate
from streamactors.cli import pages
from streamactors.cli.main import run

ROOT = Path(__file__).parents[2]


def test_it_lists_the_pages_and_prints_one(capsys):
    assert run(["docs"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert {"broker", "broker-reference", "kafka", "production", "windows"} <= listed
    assert run(["docs", "production"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "production.md").read_text()
    assert run(["docs", "docs/kafka.md"]) == 0


@pytest.mark.parametrize(
    ("page", "advice"),
    [
        ("brokr", "did you mean broker?"),
        ("faust", "did you mean migrating/faust?"),
        ("zzzz", "streamactors docs lists them"),
    ],
)
def test_a_page_that_is_not_there_is_told(capsys, page, advice):
    assert run(["docs", page]) == 2
    assert advice in capsys.readouterr().err


def test_a_pipe_gets_markdown_and_a_heading_only_what_is_below_it(capsys):
    assert run(["docs", "errors#commit-timeout"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("### Commit timeout\n")
    assert "Offsets could not be committed in time." in out
    assert "\n### " not in out


@pytest.mark.parametrize(
    "written",
    [
        "kafka.md#when-is-an-offset-committed",
        "docs/kafka.md#when-is-an-offset-committed",
        "../kafka.md#when-is-an-offset-committed",
    ],
)
def test_a_link_may_be_given_as_a_page_has_it(capsys, written):
    assert run(["docs", written]) == 0
    assert capsys.readouterr().out.startswith("## When is an offset committed?\n")


def test_a_heading_that_is_not_there_is_told_with_the_next_one(capsys):
    assert run(["docs", "errors#commit-timeot"]) == 2
    assert "errors has no heading 'commit-timeot'; did you mean errors#commit-timeout?" in capsys.readouterr().err
    assert run(["docs", "errors#zzz"]) == 2
    assert "it has errors-and-supervision, " in capsys.readouterr().err


def test_a_heading_has_what_is_below_it_and_code_is_no_heading():
    page = "# A\n\n```sh\n# no heading\n```\n\n## B: the `b`\n\nx\n\n### C\n\ny\n\n## D\n"
    assert [each.anchor for each in pages.sections(page)] == ["a", "b-the-b", "c", "d"]
    assert pages.below(page, "b-the-b") == "## B: the `b`\n\nx\n\n### C\n\ny\n"
    assert pages.below(page, "e") is None


def test_links_of_a_rendered_page_name_what_the_command_takes():
    known = dict.fromkeys(["kafka", "errors", "operators/operators-fold", "operators/index"], Path())
    written = "[a](kafka.md#x) [b](#y) [c](../streamactors/dsl/operators/fold.py) [d](https://e.f) ![g](images/h.png) `[i](kafka.md)` [j](../LICENSE)"
    assert pages.with_plain_links(written, "errors", known) == (
        "a (`kafka#x`) b (`errors#y`) c (`operators/operators-fold`) [d](https://e.f) *Picture: g* `[i](kafka.md)` j"
    )
    assert (
        pages.with_plain_links("[k](../kafka.md) [l](index.md)", "operators/operators-fold", known)
        == "k (`kafka`) l (`operators/index`)"
    )


def test_every_link_of_every_page_names_a_page_or_has_only_its_words_left():
    found = pages.all_pages()
    for name in ("kafka", "errors", "operators", "tutorial"):
        plain = pages.with_plain_links(found[name].read_text(), name, found)
        assert not re.search(r"\]\((?!https?:)", re.sub(r"```.*?```|`[^`]*`", "", plain, flags=re.DOTALL)), name


def test_the_search_finds_the_parts_that_have_all_the_words(capsys):
    assert run(["docs", "search", "Exactly", "ONCE"]) == 0
    first = capsys.readouterr().out.splitlines()[2]
    assert first.startswith("kafka-writing#")
    assert run(["docs", "search", "zzqq"]) == 1
    assert "no page has all of zzqq" in capsys.readouterr().err
    assert run(["docs", "search"]) == 2


def test_a_terminal_gets_a_rendered_page_in_a_pager(capsys, monkeypatch):
    shown = []
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.echo_via_pager", lambda text, color: shown.append(text))
    assert run(["docs", "kafka"]) == 0
    assert "```" not in shown[0]
    assert "kafka-partitions" in shown[0]
    assert run(["docs", "errors#commit-timeout"]) == 0
    assert len(shown) == 1, "a short part needs no pager"
    assert "Offsets could not be committed in time." in capsys.readouterr().out


@pytest.mark.skipif(find_spec("hatchling") is None, reason="needs hatchling, which builds the wheel")
def test_the_wheel_has_the_pages(tmp_path):
    tree = tmp_path / "tree"
    for folder in ("streamactors", "docs"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tree / name)
    for folder in generate.MADE:  # as `make docs` writes them; git does not have them
        shutil.rmtree(tree / "docs" / folder, ignore_errors=True)
        (tree / "docs" / folder).mkdir()
        (tree / "docs" / folder / "index.md").write_text("# Made\n")
    build = "import hatchling.build as b, sys; print(b.build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=tree, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    made = {f"streamactors/docs/{folder}/index.md" for folder in generate.MADE}
    assert {"streamactors/docs/broker-reference.md", *made} <= set(names)
    assert "streamactors/cli/main.py" in names
    assert "streamactors/dashboard/schema.json" in names
    assert not [name for name in names if name.startswith(("docs/", "tests/"))]
