"""What a batch asks Spark for when it goes into a Delta table, and how a session without Delta Lake is refused. No Spark runs here."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import JavaClass

from streamactors.errors import BuildError
from streamactors.spark.errors import SparkSetupError
from streamactors.spark.sink.delta import CATALOG, EXTENSION, TESTED, TESTED_WITH, DeltaWriter, check_delta


class Calls:
    """Stands for a frame or its writer: notes each call, and returns itself."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []
        self.write = self

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Calls:
            self.made.append((name, *arguments))
            return self

        return call


def test_a_batch_is_one_commit_that_names_the_query_and_the_epoch() -> None:
    frame = Calls()
    DeltaWriter("/table", None, ())(frame, 7, "the query")
    assert frame.made == [
        ("format", "delta"),
        ("mode", "append"),
        ("option", "txnAppId", "the query"),
        ("option", "txnVersion", 7),
        ("save", "/table"),
    ]


def test_a_batch_is_transformed_and_divided_by_columns() -> None:
    frame, changed = Calls(), Calls()
    seen: list[Any] = []

    def transform(given: Any, epoch: int) -> Any:
        seen.append((given, epoch))
        return changed

    DeltaWriter("/table", transform, ["day", "hour"])(frame, 7, "the query")
    assert seen == [(frame, 7)]
    assert frame.made == []
    assert changed.made[-2:] == [("partitionBy", "day", "hour"), ("save", "/table")]


def test_a_transform_that_returns_no_frame_is_named() -> None:
    with pytest.raises(
        BuildError, match=r"SparkSink\.delta: transform must return the DataFrame to write, and returned None"
    ):
        DeltaWriter("/table", lambda frame, epoch: None, ())(Calls(), 7, "the query")


def session(version: str, *, jar: bool, extension: bool) -> Any:
    jvm = SimpleNamespace(**{EXTENSION: object.__new__(JavaClass) if jar else object()})
    settings = {"spark.sql.extensions": f"other,{EXTENSION}" if extension else "other"}
    return SimpleNamespace(_jvm=jvm, version=version, conf=settings)


def test_a_session_with_the_jar_and_the_extension_is_taken() -> None:
    check_delta("sink", session("4.2.0", jar=True, extension=True))


@pytest.mark.parametrize(
    ("version", "way"),
    [
        (
            f"{TESTED_WITH}.1",
            f'spark_session(**{{"spark.jars.packages": "io.delta:delta-spark_{TESTED_WITH}_2.13:{TESTED}"',
        ),
        ("3.5.1", f"install PySpark {TESTED_WITH}, and start the session with its jar, io.delta:delta-spark_"),
    ],
)
def test_a_session_without_the_jar_is_refused_with_the_way(version: str, way: str) -> None:
    with pytest.raises(SparkSetupError, match=re.escape(way)) as refused:
        check_delta("sink", session(version, jar=False, extension=True))
    assert str(refused.value).startswith(f"sink: Delta Lake is not in this Spark session. Delta Lake {TESTED}")
    assert f"and Spark {version} runs here" in str(refused.value)


def test_a_session_without_the_extension_is_refused_with_its_settings() -> None:
    with pytest.raises(SparkSetupError, match="but its extension is not") as refused:
        check_delta("sink", session("4.2.0", jar=True, extension=False))
    assert f'"spark.sql.extensions": "{EXTENSION}", "spark.sql.catalog.spark_catalog": "{CATALOG}"' in str(
        refused.value
    )
