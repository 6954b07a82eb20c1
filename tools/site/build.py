"""Build the site: `python -m tools.site.build`. The pages go to site/VERSION; site/index.html leads to the newest version.

Versions that site/ already has stay there. site/versions.json lists them all, in the form of mike; each page lets its reader choose one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tools.site import llms, navigation, pages
from tools.site.tree import DOCS, ROOT

SITE = ROOT / "site"
PREPARED = ROOT / "build" / "site"
_LEADS = """<!doctype html>
<meta charset="utf-8">
<title>streamactors</title>
<meta http-equiv="refresh" content="0; url={0}/index.html">
<a href="{0}/index.html">streamactors {0}</a>
"""


def settings(made: Iterable[str]) -> dict[str, Any]:
    """Return docs/site.yml, with every page of the navigation. `made`: the pages of the site."""
    read: dict[str, Any] = yaml.safe_load((DOCS / "site.yml").read_text(encoding="utf-8"))
    return read | {"nav": navigation.expanded(read["nav"], made)}


def build(into: Path, prepared: Path = PREPARED) -> None:
    """Build one version. Ends the process with a message for a dead link, and for a page without an entry in the navigation."""
    prepared.mkdir(parents=True, exist_ok=True)
    made = pages.write(prepared / "pages")
    of_site = settings(made) | {"docs_dir": "pages", "site_dir": "html"}
    if wrong := navigation.problems(of_site["nav"], set(made)):
        raise SystemExit("docs/site.yml: " + "; ".join(wrong))
    (prepared / "mkdocs.yml").write_text(yaml.safe_dump(of_site, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(prepared / "mkdocs.yml")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(done.stdout.partition("Traceback")[0])
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(
        prepared / "html", into, ignore=shutil.ignore_patterns("404.html")
    )  # its links hold at the root only
    for page, text in made.items():
        (into / page).write_text(text, encoding="utf-8")
    (into / "llms.txt").write_text(llms.index(of_site["nav"], made), encoding="utf-8")
    (into / "llms-full.txt").write_text(llms.whole(of_site["nav"], made), encoding="utf-8")


def finish(into: Path = SITE) -> str:
    """List the versions of a folder, make its first page lead to the newest one, and return that."""
    found = sorted((path.parent.name for path in into.glob("*/llms.txt")), key=_order, reverse=True)
    listed = [{"version": each, "title": each, "aliases": ["latest"] if each == found[0] else []} for each in found]
    (into / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    (into / "index.html").write_text(_LEADS.format(found[0]), encoding="utf-8")
    return found[0]


def main(into: Path = SITE) -> int:
    """Build the version of pyproject.toml."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    build(into / version)
    finish(into)
    print(f"open {into / 'index.html'}")
    return 0


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


if __name__ == "__main__":
    sys.exit(main())
