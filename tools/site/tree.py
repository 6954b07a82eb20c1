"""Which page of the site is which file of the tree, and where the links of a page lead there.

Pages of docs/ keep their names, and pages that are made of a source file are those of that file. README.md is the home page. A link to a source file leads to a page that shows the file, so that the site needs
no code host."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Final

from streamactors.cli.pages import page_of_source

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
PAGES_OF_FILES: Final = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages outside of docs/: the file in the tree, and the page."""
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_CODE = re.compile(r"^(```|~~~).*?^\1\s*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def file_of(page: str) -> str:
    """Return the file of the tree that a page is made from, relative to the root."""
    return next((file for file, of in PAGES_OF_FILES.items() if of == page), f"docs/{page}")


def page_of(file: str) -> str:
    """Return the page, or the picture, that shows a file or a folder of the tree."""
    if file in PAGES_OF_FILES:
        return PAGES_OF_FILES[file]
    if made := page_of_source(file):
        return f"{made}.md"
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    return f"source/{file}/index.md" if (ROOT / file).is_dir() else f"source/{file}.md"


def with_links(markdown: str, change: Callable[[str], str]) -> str:
    """Return Markdown with the target of each relative link changed; code stays as it is."""
    made, end = [], 0
    for code in _CODE.finditer(markdown):
        made += [_linked(markdown[end : code.start()], change), code[0]]
        end = code.end()
    return "".join([*made, _linked(markdown[end:], change)])


def for_site(markdown: str, page: str) -> str:
    """Return the Markdown of a page with links that hold in the site."""
    here = dirname(file_of(page))
    return with_links(
        markdown, lambda target: relpath(page_of(normpath(f"{here}/{target}".lstrip("/"))), dirname(page) or ".")
    )


def sources(pages: dict[str, str]) -> set[str]:
    """Return the files and folders outside of docs/ that pages (by their files in the tree) link to."""
    found: set[str] = set()
    for file, markdown in pages.items():
        here = dirname(file)

        def note(target: str, here: str = here) -> str:
            path = normpath(f"{here}/{target}".lstrip("/"))
            if (
                not path.startswith(("docs/", ".."))
                and path not in PAGES_OF_FILES
                and not page_of_source(path)
                and (ROOT / path).exists()
            ):
                found.add(path)
            return target

        with_links(markdown, note)
    return found


def source_page(file: str) -> str:
    """Return the page of a source file, or of the Python files of a folder."""
    path = ROOT / file
    if not path.is_dir():
        return f"# {file}\n\n{_fenced(path)}\n"
    parts = [f"# {file}", *(f"## {each.name}\n\n{_fenced(each)}" for each in sorted(path.glob("*.py")))]
    return "\n\n".join(parts) + "\n"


def _fenced(path: Path) -> str:
    kind = "python" if path.suffix in {".py", ".pyi"} else "text"
    return f"````{kind}\n{path.read_text(encoding='utf-8').rstrip()}\n````"


def _linked(text: str, change: Callable[[str], str]) -> str:
    return _LINK.sub(lambda link: f"{link[1]}{change(link[2])}{link[3]}", text)
