"""An environment of its own for Delta Lake: PySpark 4.2, the newest that Delta Lake has a release for, and Delta Lake's jars through Maven.

Everything else, this package included, comes from the environment of the tests. It lies in the temporary folder and is made at the first
use."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from streamactors.spark.sink.delta import CATALOG, EXTENSION, TESTED, TESTED_WITH

PYSPARK = f"{TESTED_WITH}.0"
HOME = Path(tempfile.gettempdir()) / f"streamactors-delta-{TESTED}-{os.getuid()}"
MAKE_S = 1_200
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>delta</artifactId><version>1</version>
<dependencies>
<dependency><groupId>io.delta</groupId><artifactId>delta-spark_{TESTED_WITH}_2.13</artifactId><version>{TESTED}</version></dependency>
</dependencies></project>
"""


def found() -> bool:
    """Whether Java and Maven are here."""
    return bool(shutil.which("java") and shutil.which("mvn"))


@functools.cache
def python() -> str:
    """Return the environment's Python. Raises CalledProcessError if pip or Maven cannot make it."""
    made = HOME / "venv" / "bin" / "python"
    if not (HOME / "complete").exists():
        HOME.mkdir(parents=True, exist_ok=True)
        (HOME / "pom.xml").write_text(_POM)
        groups = "-DincludeGroupIds=io.delta,io.unitycatalog"  # Spark has the others
        _run("mvn", "-q", "-B", "dependency:copy-dependencies", groups, f"-DoutputDirectory={HOME / 'jars'}")
        _run(sys.executable, "-m", "venv", str(HOME / "venv"))
        _run(str(made), "-m", "pip", "install", "-q", f"pyspark=={PYSPARK}")
        (HOME / "complete").touch()
    return str(made)


def environment() -> dict[str, str]:
    """Return the environment variables of a program: its own PySpark comes first, then all that the tests have."""
    (own,) = (HOME / "venv" / "lib").glob("python*/site-packages")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(own), *filter(None, sys.path)])}


def settings() -> dict[str, str]:
    """Return the settings of a session with Delta Lake."""
    return {
        "spark.jars": ",".join(str(jar) for jar in sorted((HOME / "jars").glob("*.jar"))),
        "spark.sql.extensions": EXTENSION,
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.databricks.delta.snapshotPartitions": "1",  # tasks that read the table's log: 50 otherwise
    }


def _run(*command: str) -> None:
    subprocess.run(command, cwd=HOME, check=True, capture_output=True, timeout=MAKE_S)
