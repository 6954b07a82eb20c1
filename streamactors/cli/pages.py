"""The pages of the documentation: where they are, their headings and links, and a search.

A page that is kept in git links to the source file of a page that is made, since git does not have that page; readers of pages get the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from posixpath import normpath
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
_MADE_OF: Final = {
    "streamactors/kafka/settings.py": "reference/settings",
    "docs/names.py": "operators/akka-names",
    "docs/library_names.py": "operators/other-names",
}
_OPERATORS = re.compile(r"streamactors/dsl/(operators|sources|sinks|context|dynamic)/(\w+)\.py")
_FACADE = re.compile(r"streamactors/(\w+)/__init__\.py")
_LINK = re.compile(r"^```.*?^```$|(!?)\[([^]]*)\]\(([^)\s]+)\)|`[^`\n]+`", re.MULTILINE | re.DOTALL)
"""A link, or code, in which there are none."""
_HEADING = re.compile(r"(#{1,6}) +(.+)")
_WEIGHTS: Final = {1: 8, 2: 4, 3: 4}
"""How much more a word in a heading counts than one in the text, by the heading's level."""


@dataclass(frozen=True)
class Section:
    """A heading of a page with the text below it, up to the next heading of any level."""

    level: int
    title: str
    text: str

    @property
    def anchor(self) -> str:
        """The anchor of the heading, as code hosts make it."""
        return re.sub(r"[^\w\- ]", "", self.title.lower()).replace(" ", "-")


@dataclass(frozen=True)
class Hit:
    """A section that a search has found. `line`: the first line that has a word."""

    page: str
    section: Section
    line: str
    score: int


def all_pages() -> dict[str, Path]:
    """Return the pages by their names: those in the installed package, or those of the clone."""
    folder = next((each for each in (_PACKAGE / "docs", _PACKAGE.parent / "docs") if each.is_dir()), _PACKAGE)
    found = {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.rglob("*.md"))}
    return found | {str(path.relative_to(folder)): path for path in sorted(folder.glob("monitoring/*"))}


def page_of_source(file: str) -> str | None:
    """Return the page (its name below docs/, without .md) that is made of a source file; None if there is none."""
    if file in _MADE_OF:
        return _MADE_OF[file]
    if of := _OPERATORS.fullmatch(file):
        room, name = of[1], of[2].replace("_", "-")
        return f"operators/{name}" if room == "dynamic" else f"operators/{room}-{name}"
    package = _FACADE.fullmatch(file)
    return f"reference/{package[1]}" if package else None


def page_name(target: str, page: str = "") -> str:
    """Return the name of the page that a link leads to, or that a user has typed. `page`: the page that has the link."""
    path = re.sub(r"^(\.\.?/)+", "", normpath(f"docs/{page}/../{target}") if page else target)
    return page_of_source(path) or path.removeprefix("docs/").removesuffix(".md")


def sections(markdown: str) -> list[Section]:
    """Return the sections of a page. Lines of code are no headings."""
    found: list[Section] = []
    lines: list[str] = []
    level, title, in_code = 0, "", False
    for line in markdown.splitlines():
        in_code ^= line.startswith(("```", "~~~"))
        heading = None if in_code else _HEADING.fullmatch(line)
        if heading:
            found.append(Section(level, title, "\n".join(lines)))
            level, title, lines = len(heading[1]), heading[2], []
        lines.append(line)
    return [*found[1:], Section(level, title, "\n".join(lines))]


def below(markdown: str, anchor: str) -> str | None:
    """Return a heading with all that is below it; None if the page has no such heading."""
    every = sections(markdown)
    start = next((at for at, each in enumerate(every) if each.anchor == anchor), None)
    if start is None:
        return None
    level = every[start].level
    end = next((at for at in range(start + 1, len(every)) if every[at].level <= level), len(every))
    return "\n".join(each.text for each in every[start:end]).rstrip() + "\n"


def with_plain_links(markdown: str, page: str, known: dict[str, Path]) -> str:
    """Return Markdown whose links name what `streamactors docs` takes. Pictures keep their captions only."""

    def plain(link: re.Match[str]) -> str:
        is_picture, words, target = link.groups()
        if target is None:
            return link[0]
        path, _, anchor = target.partition("#")
        if is_picture:
            return f"*Picture: {words}*"
        if "://" in target:
            return link[0]
        name = page_name(path, page) if path else page
        return f"{words} (`{name}{f'#{anchor}' if anchor else ''}`)" if name in known else words

    return _LINK.sub(plain, markdown)


def search(words: list[str], pages: dict[str, Path]) -> list[Hit]:
    """Return the sections that have every word, the best first. Case does not matter."""
    return sorted(_hits([word.lower() for word in words], pages), key=lambda hit: -hit.score)


def _hits(words: list[str], pages: dict[str, Path]) -> Iterator[Hit]:
    for page, path in pages.items():
        if path.suffix != ".md":
            continue
        for section in sections(path.read_text(encoding="utf-8")):
            text, title = section.text.lower(), section.title.lower()
            if all(word in text for word in words):
                in_title = sum(word in title or word in page for word in words)
                counted = sum(min(text.count(word), 5) for word in words)
                lines = [line for line in section.text.splitlines()[1:] if any(word in line.lower() for word in words)]
                score = counted + 20 * in_title * _WEIGHTS.get(section.level, 1) // 4
                yield Hit(page, section, lines[0].strip() if lines else "", score)
