"""Write the programs of examples/ into their pages: `make docs`, or `python -m docs.programs [--check | --run]`.

`docs/recipes/late-rows.md` shows `examples/recipes/late_rows.py` in its first Python block that does not begin with `# not run`, and
what the program prints in the block of text below it. `--run` runs the programs and writes these outputs, too."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("recipes", "migrating")
_PROGRAM = re.compile(r"^```python\n(?!# not run)(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)


def programs() -> dict[Path, Path]:
    """Return the page of each program: {page: program}. Raises FileNotFoundError for a page without a program."""
    found = {}
    for folder in FOLDERS:
        for page in sorted((ROOT / "docs" / folder).glob("*.md")):
            if page.stem != "index":
                found[page] = ROOT / "examples" / folder / f"{page.stem.replace('-', '_')}.py"
                if not found[page].exists():
                    raise FileNotFoundError(f"{page.relative_to(ROOT)} has no program {found[page].relative_to(ROOT)}")
    return found


def shown(page: Path) -> tuple[str, str]:
    """Return (program, output) as the page shows them; empty strings where the page shows none."""
    match = _PROGRAM.search(page.read_text(encoding="utf-8"))
    return (match[1], match[2] or "") if match else ("", "")


def filled(page: Path, program: str, output: str) -> str:
    """Return the text of a page with this program and this output."""
    blocks = f"```python\n{program}```\n\n```text\n{output}```\n"
    return _PROGRAM.sub(lambda _: blocks, page.read_text(encoding="utf-8"), count=1)


def printed(program: Path) -> str:
    """Run a program in a process of its own; return what it prints."""
    command = [sys.executable, str(program)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, timeout=300).stdout


def main(arguments: list[str]) -> int:
    """Write the pages; with `--check` return 1 if one is not up to date. Other arguments are names of programs to write, all if none."""
    names = [each for each in arguments if not each.startswith("--")]
    stale = 0
    for page, program in programs().items():
        if names and program.stem not in names:
            continue
        before = page.read_text(encoding="utf-8")
        output = printed(program) if "--run" in arguments else shown(page)[1]
        after = filled(page, program.read_text(encoding="utf-8"), output)
        if "--check" in arguments:
            stale += after != before
        elif after != before:
            page.write_text(after, encoding="utf-8")
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
