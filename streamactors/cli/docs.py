"""`streamactors docs`: the pages of the documentation, which the wheel brings along."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import click

_PACKAGE = Path(__file__).parents[1]


def pages() -> dict[str, Path]:
    """Return the pages by their names: those in the installed package, or those of the clone."""
    folder = next((each for each in (_PACKAGE / "docs", _PACKAGE.parent / "docs") if each.is_dir()), _PACKAGE)
    return {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.md"))}


@click.command("docs")
@click.argument("page", required=False)
def command(page: str | None) -> None:
    """Print a page of the documentation as Markdown; without PAGE the names of all pages.

    \b
    Examples:
      streamactors docs
      streamactors docs broker-reference
    """
    found = pages()
    if page is None:
        width = max(map(len, found), default=0) + 2
        for name, path in found.items():
            with path.open(encoding="utf-8") as text:
                title = text.readline().strip("# \n")
            click.echo(f"{name:{width}}{title}")
        return
    name = page.removeprefix("docs/").removesuffix(".md")
    if name not in found:
        near = get_close_matches(name, found, n=1)
        advice = f"did you mean {near[0]}?" if near else "streamactors docs lists them"
        raise click.UsageError(f"there is no page {page!r}; {advice}")
    click.echo(found[name].read_text(encoding="utf-8"), nl=False)
