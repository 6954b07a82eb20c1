"""The log as JSON: one object a line, whatever a record, a name or an error contains.

Fields: `time` (RFC 3339, UTC), `level`, `logger`, `message`; `stream`, `stage`, `topic`, `partition`, `offset`, `trace_id` and `span_id` where they are
known; `exception` with `type`, `message`, `notes` and `stack`. Owner: the process, which calls `install` once, at its start."""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

from streamactors.text_log import TextFormatter

MOST: Final = 32_768
"""Longer messages, and longer stacks, are shortened."""
PLACE: Final = ("stream", "stage", "topic", "partition", "offset")
"""What a line may say by `extra`; the rest comes from where the thread is."""

Where = Callable[[BaseException | None], Mapping[str, Any]]


def nowhere(_: BaseException | None) -> Mapping[str, Any]:
    """Say nothing of where the thread is."""
    return {}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON. `fields` are in each line; `place` says where the thread is that logs, or where an error was raised."""

    def __init__(self, fields: Mapping[str, Any] | None = None, place: Where = nowhere) -> None:
        super().__init__()
        self._fields = dict(fields or {})
        self._place = place

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Never raises: a value that cannot be written is left out."""
        ms = int(record.created * 1_000)
        error: BaseException | None = record.__dict__.get("caused_by") or (record.exc_info or (None, None))[1]
        line: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ms // 1_000))}.{ms % 1_000:03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": shortened(_message(record)),
            **self._fields,
        }
        try:
            line |= self._place(error)
        except Exception as failed:  # noqa: BLE001 - a frame that ends, an object of the user
            line["place"] = f"unknown ({type(failed).__name__})"
        for name in PLACE:
            found = record.__dict__.get(name)
            if isinstance(found, str | int):
                line[name] = found
        if error is not None:
            line["exception"] = _exception(error)
        return json.dumps(line, default=_text)


class _Handler(logging.StreamHandler[Any]):
    """Writes to standard error as it is now, a line in one call."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def handleError(self, record: logging.LogRecord) -> None:
        """Drop the line: standard error is closed or full, and a traceback there would not be JSON."""


def configure(
    level: str, *, as_json: bool, text_format: str, fields: Mapping[str, Any] | None = None, place: Where = nowhere
) -> None:
    """Write the log of this process to standard error, from `level` (such as "warning") on, as text or as JSON with `fields` in each line."""
    if not as_json:
        text = logging.StreamHandler()
        text.setFormatter(TextFormatter(text_format))
        logging.basicConfig(level=level.upper(), handlers=[text])
        return
    handler = _Handler()
    handler.setFormatter(JsonFormatter(fields, place))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    global _installed
    _installed = handler


_installed: _Handler | None = None


def say(logger: str, line: str, level: int = logging.INFO) -> bool:
    """Write a line of a command as JSON, whatever the level of the log. False: the log is not JSON, so the command prints its line itself."""
    if _installed is None:
        return False
    _installed.handle(logging.LogRecord(logger, level, "", 0, line, None, None))
    return True


def shortened(text: str) -> str:
    """Return a text of at most MOST characters."""
    return text if len(text) <= MOST else f"{text[:MOST]}… ({len(text)} characters)"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - of a value's __str__, or a wrong format
        return f"{record.msg} (cannot be formatted: {type(error).__name__})"


def _exception(error: BaseException) -> dict[str, Any]:
    found: dict[str, Any] = {"type": type(error).__name__, "message": shortened(_text(error))}
    notes = getattr(error, "__notes__", None)
    if notes:
        found["notes"] = [shortened(_text(note)) for note in notes]
    try:
        stack = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - of the error's own __str__
        stack = "".join(traceback.format_tb(error.__traceback__))
    found["stack"] = shortened(stack)
    return found


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - of the value
        return f"{type(value).__name__} (cannot be shown: {type(error).__name__})"


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        logging.getLogger("streamactors").critical("the process ends: %s", kind.__name__, exc_info=(kind, error, trace))


def _uncaught_in_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_value is not None and not isinstance(found.exc_value, SystemExit):
        name = found.thread.name if found.thread is not None else "a thread"
        logging.getLogger("streamactors").error("thread %s has ended with an error", name, exc_info=found.exc_value)
