"""`streamactors new NAME`: a project that runs: a pipeline, its test at a real broker, pyproject.toml, Dockerfile and README."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

import click

_TEMPLATE: Final = Path(__file__).with_name("template")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
FILES: Final = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "Dockerfile": "Dockerfile.txt",
    ".dockerignore": "dockerignore.txt",
    ".gitignore": "gitignore.txt",
    "{{package}}/__init__.py": None,
    "{{package}}/pipeline.py": "pipeline.py.txt",
    "tests/test_pipeline.py": "test_pipeline.py.txt",
}
"""The files of a project, and those of the template they are made of; None: empty. Names and contents have placeholders."""


@click.command("new")
@click.argument("folder", metavar="NAME")
def command(folder: str) -> None:
    """Make the folder NAME with a project that runs: a pipeline, a test that starts a broker for it, pyproject.toml, Dockerfile and README.

    NAME may be a path; its last part is the name of the project.

    \b
    Example:
      streamactors new order-counts && cd order-counts && pytest
    """
    target = Path(folder)
    name = target.absolute().name
    package = package_of(name)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise click.ClickException(f"{folder} exists; give another name, or an empty folder")
    placeholders = {"name": name, "package": package, "version": version("streamactors")}
    try:
        for path, template in FILES.items():
            file = target / _filled(path, placeholders)
            file.parent.mkdir(parents=True, exist_ok=True)
            text = "" if template is None else (_TEMPLATE / template).read_text(encoding="utf-8")
            file.write_text(_filled(text, placeholders), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename} ({error.strerror})") from None
    click.echo(f"{folder} is made; next: cd {folder} && pytest")
    click.echo(f"run it: streamactors run {package}.pipeline:graph --reload")


def package_of(name: str) -> str:
    """Return the name of the package of a project. Raises BadParameter for a name that none can have."""
    package = name.replace("-", "_").lower()
    if _NAME.fullmatch(name) is None:
        raise click.BadParameter(
            f"{name!r} is no name of a project; it begins with a letter and has letters, digits, - and _",
            param_hint="NAME",
        )
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or package in ("streamactors", "tests"):
        raise click.BadParameter(
            f"a package {package!r} exists already; give a name such as my-{name}", param_hint="NAME"
        )
    return package


def _filled(text: str, placeholders: dict[str, str]) -> str:
    for name, value in placeholders.items():
        text = text.replace("{{" + name + "}}", value)
    return text
