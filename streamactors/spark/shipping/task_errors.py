"""The error of a task as one sentence, which Spark passes on as text: the name of the exception, its message, and the stage with the element.

In one process the exception itself is raised. Spark reports it as a trace of many lines, in which a class of the user's own is not found. So
a worker raises SparkQueryFailed with the sentence, and the driver makes that error again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamactors.errors import StreamActorsError
from streamactors.spark.errors import SparkQueryFailed


@contextmanager
def told_in_a_sentence() -> Iterator[None]:
    """Raise SparkQueryFailed from an error that is not this package's own."""
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException as error:
        if isinstance(error, StreamActorsError) and type(error).__module__.startswith("streamactors."):
            raise
        raise SparkQueryFailed(sentence(error)) from error


def sentence(error: BaseException) -> str:
    """Return the error of a task in one line."""
    message = " ".join(str(error).split())
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("in stage ")]
    return (
        f"a task failed: {type(error).__name__}{f': {message}' if message else ''}{f' ({notes[-1]})' if notes else ''}"
    )
