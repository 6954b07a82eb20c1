"""Join the files of changelog.d/ into CHANGELOG.md, as a release does.

python tools/release_notes.py 0.2.0             write the entries below the heading of this version, and remove the files
python tools/release_notes.py 0.2.0 --preview   print the section of this version as it would be

A version without a heading gets one above the others. A file is named after the area that it tells of: its entries stay together, in the order of
the names."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
HEADING: Final = "## "


def joined(changelog: str, version: str, files: Mapping[str, str]) -> str:
    """Return the changelog with the entries of the files, which are texts by name, below the heading of `version`.

    Raises ValueError for a file that is not a list of entries."""
    lines = changelog.rstrip("\n").split("\n")
    headings = [number for number, line in enumerate(lines) if line.startswith(HEADING)]
    own = next((number for number in headings if lines[number].split()[1] == version), None)
    if own is None:
        own = headings[0] if headings else len(lines)
        lines[own:own] = [f"{HEADING}{version}", "", ""]
        headings = [own] + [number + 3 for number in headings]
    end = next((number for number in headings if number > own), len(lines))
    section = "\n".join(lines[own:end]).rstrip("\n")
    entries = "\n".join(_entries(name, files[name]) for name in sorted(files))
    if entries:
        is_list = section.rsplit("\n", 1)[-1].startswith(("- ", "  "))
        section += ("\n" if is_list else "\n\n") + entries
    rest = "\n".join(lines[end:])
    return "\n".join([*lines[:own], section]) + "\n" + (f"\n{rest}\n" if rest else "")


def section_of(changelog: str, version: str) -> str:
    """Return the heading of a version and what is below it. Raises ValueError if there is none."""
    for part in changelog.split(f"\n{HEADING}")[1:]:
        if part.split(None, 1)[0] == version:
            return f"{HEADING}{part.strip()}\n"
    raise ValueError(f"CHANGELOG.md has no heading {HEADING}{version}")


def _entries(name: str, text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    wrong = next((line for line in lines if not line.startswith(("- ", "  "))), None)
    if not lines or wrong is not None or not lines[0].startswith("- "):
        raise ValueError(
            f"changelog.d/{name}: a file is a list of entries, each begins with '- '; got {wrong or text!r}"
        )
    return "\n".join(lines)


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Release the version that is named, which must be that of pyproject.toml."""
    named = [each for each in arguments if not each.startswith("-")]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if named != [project]:
        print(f"the version of pyproject.toml is {project}: python tools/release_notes.py {project}", file=sys.stderr)
        return 2
    changelog = root / "CHANGELOG.md"
    paths = sorted((root / "changelog.d").glob("*.md"))
    files = {path.name: path.read_text(encoding="utf-8") for path in paths}
    text = joined(changelog.read_text(encoding="utf-8"), project, files)
    if "--preview" in arguments:
        print(section_of(text, project), end="")
        return 0
    changelog.write_text(text, encoding="utf-8")
    for path in paths:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
