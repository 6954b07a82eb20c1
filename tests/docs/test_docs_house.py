"""The pages about the house: every room is on the map, and every word is defined once."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ROOT / "streamactors"


def test_every_room_is_on_the_map_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The rooms")[2].partition("\n## ")[0]
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)+)/`", table)
    rooms = {path.parent.relative_to(PRODUCT).as_posix() for path in PRODUCT.glob("*/*/**/__init__.py")}
    assert sorted(named) == sorted(rooms), "docs/architecture.md names each package once"


def test_every_page_is_reached_from_the_readme() -> None:
    linked = set(re.findall(r"\(docs/([\w-]+\.md)", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} - linked == set()


def test_every_page_has_a_place_in_the_navigation_of_the_site() -> None:
    listed = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "docs" / "site.yml").read_text(encoding="utf-8"), re.MULTILINE))
    lacking = {path.name for path in (ROOT / "docs").glob("*.md")} - listed
    assert lacking == set(), "docs/site.yml lists the pages by what a reader wants: give these a place there"


def extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def test_every_extra_is_on_the_page_about_installing() -> None:
    page = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
    assert {extra for extra in extras() if f"`{extra}`" not in page} == set()


def test_pages_and_messages_name_no_extra_that_is_not_there() -> None:
    """The page about the broker named an extra whose package had become a dependency."""
    texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *PRODUCT.rglob("*.py")]
    found = {}
    for path in texts:
        text = path.read_text(encoding="utf-8")
        named = {name for names in re.findall(r"streamactors\[([\w,]+)\]", text) for name in names.split(",")}
        absent = named.union(re.findall(r"\bextras? `(\w+)`", text)) - extras()
        if absent:
            found[str(path.relative_to(ROOT))] = absent
    assert found == {}


def test_every_word_of_the_glossary_is_defined_once() -> None:
    words = re.findall(r"^\*\*([^*]+)\*\*:", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(words) > 60
    assert sorted(words) == sorted(set(words))


PATHS = re.compile(r"`([\w.-]+(?:/[\w.-]+)*(?:\.py|/))`")
"""A file or a folder as texts name it."""


MADE = {"docs/operators/", "docs/reference/"}
"""Folders of pages that `make docs` writes, so that a fresh clone does not have them."""


def places(folder: Path) -> list[Path]:
    """Return where a header's names begin: its package, the packages in it, and those around it."""
    around = [above for above in (folder, *folder.parents) if PRODUCT in (above, *above.parents)]
    return [*around, *(below for below in folder.iterdir() if below.is_dir()), ROOT]


def missing(text: str, where: list[Path]) -> list[str]:
    """Return the files and folders that a text names and that do not exist. `apiNN_name.py` stands for any API; `make docs` makes MADE."""
    names = [name for name in PATHS.findall(text) if "NN" not in name and name not in MADE]
    return [name for name in names if not any((place / name).exists() for place in where)]


def test_every_file_that_a_header_names_exists() -> None:
    found = {}
    for path in sorted(PRODUCT.rglob("*.py")):
        header = re.match(r'"""(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL)
        absent = missing(header[1], places(path.parent)) if header else []
        if absent:
            found[str(path.relative_to(ROOT))] = absent
    assert found == {}


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_file_that_the_map_names_exists(page: str) -> None:
    """A name may begin at a folder that its section has named before, or beside it."""
    found = {}
    for section in (ROOT / page).read_text(encoding="utf-8").split("\n## "):
        named = [ROOT / name for name in PATHS.findall(section)] + [PRODUCT / name for name in PATHS.findall(section)]
        folders = [each if each.is_dir() else each.parent for each in named if each.exists()]
        absent = missing(section, [PRODUCT, ROOT, *folders, *(folder.parent for folder in folders)])
        if absent:
            found[section.splitlines()[0]] = absent
    assert found == {}
