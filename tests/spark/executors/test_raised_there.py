"""The error of a task, made again in the driver from Spark's text."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from streamactors.engine.user_code import blame
from streamactors.errors import StreamActorsError
from streamactors.kafka.errors import RecordError
from streamactors.spark.errors import CheckpointError, SparkQueryFailed
from streamactors.spark.executors.runner import _raised_there
from streamactors.spark.shipping.task_errors import told_in_a_sentence

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


class OrderRejected(Exception):
    """An exception of a user, whose name does not end as those of Python do."""


class Unavailable(StreamActorsError):
    """An exception of a user that extends this package's."""


def trace_of(error: BaseException) -> str:
    """Return what Spark reports of an error in a worker."""
    with pytest.raises(BaseException) as raised, told_in_a_sentence():
        try:
            raise RecordError("the cause")
        except RecordError:
            raise error  # noqa: B904
    return AROUND.format("".join(traceback.format_exception(raised.value)))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OrderRejected("no\n  price"), "a task failed: OrderRejected: no price"),
        (OrderRejected(), "a task failed: OrderRejected"),
        (
            blame(OrderRejected("no price"), "map", 3),
            "a task failed: OrderRejected: no price (in stage map, element 3)",
        ),
        (Unavailable("later"), "a task failed: Unavailable: later"),
        (SystemExit("no configuration"), "a task failed: SystemExit: no configuration"),
    ],
)
def test_an_exception_of_the_users_own_is_one_sentence(error: BaseException, message: str) -> None:
    """It arrived as a PythonException with a trace, or as the error that it came from."""
    found = _raised_there(trace_of(error))
    assert type(found) is SparkQueryFailed
    assert str(found) == message


def test_an_error_of_this_package_that_came_from_another_is_made_again() -> None:
    found = _raised_there(trace_of(CheckpointError("batch 3 is gone")))
    assert type(found) is CheckpointError
    assert str(found) == "batch 3 is gone"


def test_a_worker_that_is_left_early_raises_no_error() -> None:
    def rows() -> Iterator[int]:
        with told_in_a_sentence():
            yield 1
            yield 2

    left = rows()
    assert next(left) == 1
    left.close()


def test_a_text_without_an_error_has_none() -> None:
    assert _raised_there(AROUND.format("lost an executor")) is None
