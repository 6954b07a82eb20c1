"""The Python that Spark's own processes run: this interpreter, with PySpark's installed modules.

Spark puts the zip files of PySpark in front of PYTHONPATH. They hold sources only, so each of the three processes of a query compiles all
of PySpark again: 0.9 s of CPU instead of 0.3; and Spark fails a query whose process has not started within 10 s. Where PySpark is
installed as a package, a short script leaves the zip files out."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

PROGRAM: Final = "PYSPARK_PYTHON"
DRIVERS: Final = "PYSPARK_DRIVER_PYTHON"

PROBE_S: Final = 60.0
NO_PYARROW: Final = 83
"""The exit code of the probe; Python itself ends with others."""

_WAY_OUT: Final = f"set {PROGRAM} to a Python that has what streamactors[spark] needs before the session is made"

_SCRIPT = """#!/bin/sh
# PySpark's modules as they are installed, compiled, instead of those in its zip files
set -f
kept=
IFS=:
for entry in $PYTHONPATH; do
  case $entry in {zips}/*.zip|{real_zips}/*.zip) ;; *) kept=$kept$entry: ;; esac
done
PYTHONPATH=$kept{packages} exec {python} "$@"
"""


@contextmanager
def workers_python(*, local: bool) -> Iterator[None]:
    """A Spark that is started inside runs this interpreter in its workers, unless the user has set another one."""
    given = os.environ.get(PROGRAM, sys.executable) != sys.executable  # which an earlier session has set
    os.environ.setdefault(PROGRAM, sys.executable)
    os.environ.setdefault(DRIVERS, sys.executable)
    program = _without_zips() if local and not given else None
    if program is None:
        yield
        return
    before = {name: os.environ[name] for name in (PROGRAM, DRIVERS)}
    os.environ.update(dict.fromkeys(before, str(program)))
    try:
        yield
    finally:
        os.environ.update(before)  # the script goes with this process; children that outlive it must not look for it


def lacks(python: str) -> str | None:
    """Return why Spark's processes on this host cannot work with this Python, in a sentence; None if they can. Starts it once."""
    probe = f"import importlib.util, sys; sys.exit({NO_PYARROW} if importlib.util.find_spec('pyarrow') is None else 0)"
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, timeout=PROBE_S, check=False)
    except OSError as error:
        return f"Spark's Python on this host, {python}, cannot be started ({error.strerror}); {_WAY_OUT}"
    except subprocess.TimeoutExpired:
        return None  # a busy machine
    if done.returncode != NO_PYARROW:
        return None
    return f"Spark's Python on this host, {python}, has no pyarrow; install it there, or {_WAY_OUT}"


@cache
def _without_zips() -> Path | None:
    """Return the script; None if PySpark is not a package of its own with Py4J beside it."""
    import py4j
    import pyspark

    home, beside = Path(pyspark.__file__).parent, Path(py4j.__file__).parent
    if os.name != "posix" or "SPARK_HOME" in os.environ or home.parent != beside.parent or not home.is_dir():
        return None
    folder = Path(tempfile.mkdtemp(prefix="streamactors-python-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = folder / "python"
    script.write_text(
        _SCRIPT.format(
            zips=shlex.quote(str(home / "python" / "lib")),
            real_zips=shlex.quote(
                str(home.resolve() / "python" / "lib")
            ),  # Spark resolves links, as of a linked environment
            packages=shlex.quote(str(home.parent)),
            python=shlex.quote(sys.executable),
        )
    )
    script.chmod(0o700)
    return script
