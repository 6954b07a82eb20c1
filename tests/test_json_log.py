"""The log as JSON: a line stays a line, whatever it is made of, and says where the thread is."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors import ActorSystem, Directive, Sink, Source
from streamactors.engine.where import where
from streamactors.json_log import MOST, JsonFormatter
from streamactors.kafka.client.runs import made_message, wrapped
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.log_limit import log_limited

ROOT = Path(__file__).parents[1]


class Lines:
    """A logger of its own whose lines are kept, each as it was written."""

    def __init__(self, **how):
        self.out = io.StringIO()
        self.log = logging.Logger("shop")
        handler = logging.StreamHandler(self.out)
        handler.setFormatter(JsonFormatter(**how))
        self.log.addHandler(handler)

    def __call__(self):
        return [json.loads(line) for line in self.out.getvalue().split("\n")[:-1]]


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


@given(st.text(), st.text(), st.text())
def test_any_text_stays_in_its_line(message, value, name):
    lines = Lines()
    lines.log.name = name
    lines.log.warning("%s: %s", message, value)
    lines.log.warning(message.replace("%", ""))
    try:
        raise ValueError(value)
    except ValueError:
        lines.log.exception("it failed", extra={"stage": message, "offset": 7})
    first, second, third = lines()
    assert first["message"] == f"{message}: {value}"
    assert second["message"] == message.replace("%", "")
    assert (third["stage"], third["offset"], third["exception"]["message"]) == (message, 7, value)
    assert first["logger"] == name


@pytest.mark.parametrize(
    "hostile", ["a\nb", "\u2028\u2029\x85", "\x1b[31m", '"}\n{"level": "FORGED"}', "\ud800", "\x00"]
)
def test_a_hostile_value_forges_no_line(hostile):
    lines = Lines()
    lines.log.warning("record %s", hostile)
    assert len(lines.out.getvalue().splitlines()) == 1
    assert lines.out.getvalue().isascii()
    assert [line["message"] for line in lines()] == [f"record {hostile}"]


def test_a_value_that_cannot_be_shown_costs_its_text_only():
    lines = Lines()
    lines.log.warning("value %s", Unprintable())
    lines.log.warning("%d", "not a number")
    error = ValueError(Unprintable())
    lines.log.error("failed", exc_info=error)
    found = lines()
    assert "cannot be formatted: RuntimeError" in found[0]["message"]
    assert "cannot be formatted: TypeError" in found[1]["message"]
    assert found[2]["exception"]["type"] == "ValueError"


def test_extras_of_other_libraries_are_left_out():
    lines = Lines()
    lines.log.warning("x", extra={"something": object(), "stage": object(), "offset": 3})
    assert lines()[0].keys() == {"time", "level", "logger", "message", "offset"}


def test_long_messages_are_shortened():
    lines = Lines()
    lines.log.warning("x" * 10_000_000)
    assert len(lines.out.getvalue()) < MOST + 1_000
    assert "10000000 characters" in lines()[0]["message"]


def test_an_error_is_inside_the_object():
    lines = Lines(fields={"service": "shop"})
    error = KeyError("price")
    error.add_note("in stage map, element 3")
    try:
        raise error
    except KeyError:
        lines.log.exception("skipped")
    (line,) = lines()
    assert (line["service"], line["level"]) == ("shop", "ERROR")
    assert line["exception"]["notes"] == ["in stage map, element 3"]
    assert "test_json_log.py" in line["exception"]["stack"]
    assert line["time"].endswith("Z")


def record(offset):
    return wrapped([made_message(TopicPartition("orders", 3), offset, None, b"x", None)])[0]


def test_a_line_of_the_users_function_says_stream_stage_and_record():
    lines = Lines(place=where)
    with ActorSystem("where") as system:

        def price(each):
            lines.log.warning("no price")
            return each

        records = Source.from_iterable([record(7), record(8)])
        records.map(price).named("shop").run_with(Sink.ignore(), system).result(30)
    assert [(line["topic"], line["partition"], line["offset"]) for line in lines()] == [
        ("orders", 3, 7),
        ("orders", 3, 8),
    ]
    assert all(line["stream"] and "shop" in line["stage"] for line in lines())


def test_outside_streams_nothing_is_said_of_a_place():
    lines = Lines(place=where)
    mine = record(7)
    lines.log.warning("outside")
    assert not {"stream", "stage", "offset"} & lines()[0].keys()
    assert mine.offset == 7


@pytest.mark.parametrize("error", [None, ValueError("of the user")])
def test_a_place_that_cannot_be_told_costs_no_line(error):
    """The line was lost: the name of the record's error was gone after the error of the place."""

    def unknown(_: BaseException | None) -> dict[str, str]:
        raise LookupError

    lines = Lines(place=unknown)
    lines.log.warning("it happened", exc_info=error)
    (line,) = lines()
    assert (line["message"], line["place"]) == ("it happened", "unknown (LookupError)")
    assert ("exception" in line) == (error is not None)


def test_a_skipped_element_is_logged_with_its_place_and_its_traceback(monkeypatch):
    """The message names the error; only the log of JSON has its traceback."""
    lines = Lines(place=where)
    monkeypatch.setattr("streamactors.engine.supervision.log", lines.log)
    with ActorSystem("skips") as system:

        def price(each):
            raise ValueError(f"no price\n{each.offset}")

        source = Source.single(record(7)).map(price).with_attributes(decider=lambda _: Directive.RESUME)
        source.run_with(Sink.ignore(), system).result(30)
    (line,) = lines()
    assert (line["topic"], line["partition"], line["offset"]) == ("orders", 3, 7)
    assert line["exception"]["message"] == "no price\n7"
    assert "in price" in line["exception"]["stack"]


def test_the_trace_of_the_current_span_is_there():
    trace = pytest.importorskip("opentelemetry.trace")
    lines = Lines(place=where)
    context = trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(context)):
        lines.log.warning("traced")
    (line,) = lines()
    assert (line["trace_id"], line["span_id"]) == (f"{0xABC:032x}", f"{0xDEF:016x}")


def test_a_limited_line_has_the_error_that_caused_it():
    lines = Lines()
    log_limited(lines.log, logging.WARNING, "cause", "it failed", caused_by=ValueError("why"))
    assert lines()[0]["exception"]["message"] == "why"


PROGRAM = """
import logging, threading, warnings
from streamactors.json_log import configure, say
configure("warning", as_json=True, text_format="%(message)s", fields={"member": "2"})
assert say("streamactors.run", "running")
warnings.warn("old\\nname")
logging.getLogger("x").info("not at this level")
def dies():
    raise ValueError("in a thread")
thread = threading.Thread(target=dies, name="worker")
thread.start()
thread.join()
raise RuntimeError("the end\\nof it")
"""


@pytest.mark.expects_log("has ended with an error")
@pytest.mark.expects_log("the process ends")
def test_a_process_writes_nothing_but_json_until_its_end():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, check=False)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["level"] for line in lines] == ["INFO", "WARNING", "ERROR", "CRITICAL"]
    assert all(line["member"] == "2" for line in lines)
    assert lines[3]["exception"]["message"] == "the end\nof it"
    assert done.returncode == 1


def test_lines_of_many_threads_do_not_mix():
    lines = Lines()

    def write(number):
        for _ in range(200):
            lines.log.warning("%s", str(number) * 500)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines()) == 1_600


def test_a_look_for_the_stage_keeps_no_value_of_a_thread_without_a_stream() -> None:
    # A frame keeps the locals that were looked at: an object that a program deleted after a line of the log lived on.
    class Value:
        pass

    value = Value()
    known = weakref.ref(value)
    assert where() == {}
    del value
    assert known() is None
