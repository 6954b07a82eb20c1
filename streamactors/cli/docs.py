"""`streamactors docs`: the pages of the documentation, which the wheel brings along."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

from streamactors.cli import pages as documentation
from streamactors.cli.tables import print_table
from streamactors.errors import StreamActorsError

MOST_HITS: Final = 15
WIDEST: Final = 110
"""Columns of a rendered page: longer lines of prose are hard to read."""


class NothingFound(StreamActorsError):
    """No page has all the words of a search."""


@click.command("docs")
@click.argument("page", required=False)
@click.argument("words", nargs=-1)
def command(page: str | None, words: tuple[str, ...]) -> None:
    """Show a page of the documentation, or the part below one of its headings; without PAGE the names of all pages.

    At a terminal a page is rendered, and shown in a pager if it is long. A pipe gets its Markdown. `search` finds the parts that have
    all the words.

    \b
    Examples:
      streamactors docs
      streamactors docs kafka
      streamactors docs kafka#when-is-an-offset-committed
      streamactors docs search exactly once
      streamactors docs monitoring/prometheus-alerts.yml
    """
    found = documentation.all_pages()
    if page is None:
        _list(found)
    elif page == "search":
        if not words:
            raise click.UsageError("name the words to search for: streamactors docs search exactly once")
        _search(list(words), found)
    elif words:
        raise click.UsageError(
            f"one page at a time, got {' '.join((page, *words))}; to search: streamactors docs search …"
        )
    else:
        _show(page, found)


def _list(found: dict[str, Path]) -> None:
    width = max(map(len, found), default=0) + 2
    for name, path in found.items():
        with path.open(encoding="utf-8") as text:
            title = text.readline().strip("# \n") if path.suffix != ".json" else "A dashboard for Grafana."
        click.echo(f"{name:{width}}{title}")


def _search(words: list[str], found: dict[str, Path]) -> None:
    hits = documentation.search(words, found)
    if not hits:
        raise NothingFound(
            f"no page has all of {', '.join(words)}; use fewer words, or streamactors docs to see every page"
        )
    shown = [(f"{hit.page}#{hit.section.anchor}", hit.line) for hit in hits[:MOST_HITS]]
    print_table(("PAGE", "LINE"), shown)
    if len(hits) > MOST_HITS:
        click.echo(f"and {len(hits) - MOST_HITS} more; use more words", err=True)


def _show(page: str, found: dict[str, Path]) -> None:
    target, _, anchor = page.partition("#")
    name = documentation.page_name(target)
    if name not in found:
        raise click.UsageError(f"there is no page {page!r}; {_advice(name, found)}")
    text = found[name].read_text(encoding="utf-8")
    if anchor:
        part = documentation.below(text, anchor)
        if part is None:
            anchors = [each.anchor for each in documentation.sections(text)]
            near = get_close_matches(anchor, anchors, n=1)
            advice = f"did you mean {name}#{near[0]}?" if near else f"it has {', '.join(anchors[:20])}"
            raise click.UsageError(f"{name} has no heading {anchor!r}; {advice}")
        text = part
    if found[name].suffix != ".md" or not sys.stdout.isatty():
        click.echo(text, nl=False)
    else:
        _render(documentation.with_plain_links(text, name, found))


def _render(markdown: str) -> None:
    """Show Markdown at a terminal: in a pager if it is longer than the screen."""
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(color_system="auto")
    console.width = min(console.width, WIDEST)
    with console.capture() as captured:
        console.print(Markdown(markdown, hyperlinks=False))
    text = captured.get()
    if text.count("\n") < console.height:
        click.echo(text, nl=False)
    else:
        click.echo_via_pager(text, color=True)


def _advice(name: str, found: dict[str, Path]) -> str:
    if name.startswith(("operators/", "reference/")) and not any(each.startswith("operators/") for each in found):
        return "`make docs` makes the pages of operators and of public names in a clone"
    near = [each for each in found if each.rpartition("/")[2] == name] or get_close_matches(name, found, n=1)
    return f"did you mean {near[0]}?" if near else "streamactors docs lists them"
