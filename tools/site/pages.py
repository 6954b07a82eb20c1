"""The pages of the site as Zensical gets them: those of docs/ and of the root, and a page for each source file that they link to."""

from __future__ import annotations

import shutil
from pathlib import Path

from docs.generate import MADE, made
from tools.site.tree import DOCS, PAGES_OF_FILES, ROOT, for_site, page_of, source_page, sources

ASSETS = Path(__file__).parent / "assets"


def write(into: Path) -> dict[str, str]:
    """Write the pages and what they show into a folder, and return the Markdown by page."""
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(DOCS, into, ignore=shutil.ignore_patterns("*.py", "*.yml", "*.md", "__pycache__"))
    shutil.copytree(DOCS / "monitoring", into / "monitoring", dirs_exist_ok=True)
    shutil.copytree(ASSETS, into / "assets")
    texts = pages()
    for page, text in texts.items():
        (into / page).parent.mkdir(parents=True, exist_ok=True)
        (into / page).write_text(text, encoding="utf-8")
    return texts


def pages() -> dict[str, str]:
    """Return the Markdown of each page, with links that hold in the site."""
    kept = [path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in MADE]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in kept}
    texts |= {f"docs/{name}": text for name, text in made().items()}
    texts |= {file: (ROOT / file).read_text(encoding="utf-8") for file in PAGES_OF_FILES}
    found = {page_of(file): for_site(text, page_of(file)) for file, text in texts.items()}
    return found | {page_of(source): source_page(source) for source in sorted(sources(texts))}
