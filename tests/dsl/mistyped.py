"""Not run: each line marked is one that mypy must refuse (test_typing.py)."""

from __future__ import annotations

from streamactors import Flow, Sink, Source


def length(text: str) -> int:
    return len(text)


numbers = Source.range(0, 10)
numbers.map(length)  # wrong: ints given to a function of texts
numbers.via(Flow.map(length))  # wrong: a flow of texts behind a source of ints
numbers.map(str).run_with(Sink.fold(0, lambda total, n: total + n))  # wrong: adds a text to a number
numbers.to(Flow.map(str))  # wrong: a flow where a sink is needed
numbers.via(Sink.ignore())  # wrong: a sink where a flow is needed
Flow.map(length).filter(len)  # wrong: len of an int
Source.range("1")  # wrong: a text as start
