"""The files of the page, read once at the start: a request names one of them or nothing, so no path leads out of the folder."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".ico": "image/x-icon",
    ".txt": "text/plain; charset=utf-8",
}


def page_files() -> dict[str, tuple[str, bytes]]:
    """Return the kind and the content of each file by its path; "/" is the page itself."""
    found = {
        f"/{path}": (kind, file.read_bytes()) for path, kind, file in _below(files("streamactors.dashboard") / "page")
    }
    if "/index.html" in found:
        found["/"] = found["/index.html"]
    return found


def _below(folder: Traversable, before: str = "") -> Iterator[tuple[str, str, Traversable]]:
    if not folder.is_dir():
        return
    for each in folder.iterdir():
        if each.is_dir():
            yield from _below(each, f"{before}{each.name}/")
        else:
            kind = KINDS.get(each.name[each.name.rfind(".") :])
            if kind is not None:
                yield f"{before}{each.name}", kind, each
