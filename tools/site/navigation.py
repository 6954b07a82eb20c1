"""The navigation of mkdocs.yml: a tree of titles and pages, in which `FOLDER/*` stands for every page of a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from posixpath import dirname
from typing import Any


def expanded(nav: list[Any], made: Iterable[str]) -> list[Any]:
    """Return the navigation with each `FOLDER/*` replaced by the folder's pages, its index first, without those that it lists elsewhere."""
    named = {page for _, page in pages(nav)}
    found: list[Any] = []
    for entry in nav:
        title, below = ("", entry) if isinstance(entry, str) else next(iter(entry.items()))
        if isinstance(below, list):
            found.append({title: expanded(below, set(made) - named)})
        elif below.endswith("/*"):
            here = _folder(below, set(made) - named)
            found += [{title: here}] if title and here else here
        else:
            found.append(entry)
    return found


def pages(nav: list[Any], sections: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the titles of the sections around each page, and the page, of an expanded navigation."""
    for entry in nav:
        title, below = ("", entry) if isinstance(entry, str) else next(iter(entry.items()))
        if isinstance(below, list):
            yield from pages(below, (*sections, title))
        else:
            yield sections, below


def problems(nav: list[Any], made: set[str]) -> list[str]:
    """Return what is wrong with an expanded navigation: a page without an entry, an entry without a page, and a page with two."""
    listed = [page for _, page in pages(nav)]
    return [
        *(f"{page} has no entry in nav" for page in sorted(made - set(listed)) if not page.startswith("source/")),
        *(f"{page} is in nav, but not in docs/" for page in sorted(set(listed) - made)),
        *(f"{page} is in nav twice" for page in sorted({page for page in listed if listed.count(page) > 1})),
    ]


def _folder(entry: str, made: set[str]) -> list[str]:
    inside = [page for page in made if dirname(page) == entry.removesuffix("/*")]
    return sorted(inside, key=lambda page: (not page.endswith("/index.md"), page))
