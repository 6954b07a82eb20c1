"""The error of a task, made again in the driver from Spark's text."""

from __future__ import annotations

import pytest

from streamactors.spark.errors import CheckpointError, SparkQueryFailed
from streamactors.spark.executors.runner import _raised_there

AROUND = "Job aborted due to stage failure\n{}\n\tat org.apache.spark.Task.run(Task.scala:1)\n"


def test_an_error_of_this_package_is_made_again() -> None:
    found = _raised_there(AROUND.format("streamactors.spark.errors.CheckpointError: batch 3 is gone"))
    assert type(found) is CheckpointError
    assert str(found) == "batch 3 is gone"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ValueError: not a number", "a task failed: ValueError: not a number"),
        ("KeyError: 'a'\nin stage map, element 3", "a task failed: KeyError: 'a' (in stage map, element 3)"),
        ("streamactors.spark.errors.Gone: no such class\nOSError: the cause", "a task failed: OSError: the cause"),
        ("streamactors.codec.loads: not a class\nOSError: the cause", "a task failed: OSError: the cause"),
    ],
)
def test_any_other_error_keeps_its_name_and_its_text(line: str, message: str) -> None:
    found = _raised_there(AROUND.format(line))
    assert type(found) is SparkQueryFailed
    assert str(found) == message


def test_a_text_without_an_error_has_none() -> None:
    assert _raised_there(AROUND.format("lost an executor")) is None
