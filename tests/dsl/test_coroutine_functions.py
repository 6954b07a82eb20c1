"""Every operator and constructor that takes a function, and awaits nothing, refuses a coroutine function where it is written."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from streamactors import Sink, Source, Topics

AWAITING = {"batches: write", "foreach_async: fn", "join_lookup: fn", "lazy_sink: make", "lazy_future_sink: make"}
"""They take coroutine functions, as everything does whose name has `async` or `future` in it."""
ELSEWHERE = {
    "from_file_object",
    "to_file_object",
    "cycle",
    "rx",
    "actor_ref",
    "actor_ref_with_backpressure",
    "to_rotating_files",
    "join_asof",
}
"""What they take may be something else than a function, or they check something else first."""
FILLING: dict[str, Any] = {
    "emit_on_timer": None,
    "every": "1s",
    "within": "1s",
    "name": "a",
    "window": "1s",
    "url": "http://localhost",
    "sources": [Source.empty()],
    "statement": "insert into t values (1)",
    "columns": ["a"],
    "ranks": [0.5],
}


async def coroutine_function(*_: Any) -> Any:
    return True


def functions_of(owner: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, parameter and arguments for every parameter of `owner`'s methods that is a function."""
    for method in sorted(dir(owner)):
        if method.startswith("_") or "async" in method or "future" in method:
            continue
        if inspect.isclass(owner) and inspect.isfunction(getattr(owner, method)):
            continue  # needs an instance
        try:
            parameters = inspect.signature(getattr(owner, method)).parameters.values()
        except (TypeError, ValueError):
            continue
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        needed = {p.name: p for p in parameters if p.default is p.empty and p.kind in kinds}
        for parameter in parameters:
            if not str(parameter.annotation).startswith(("Callable[", "type[Processor] | Callable[")):
                continue
            arguments = {name: _filling(p) for name, p in needed.items()}
            arguments[parameter.name] = coroutine_function
            yield method, parameter.name, arguments


def _filling(parameter: inspect.Parameter) -> Any:
    annotation = str(parameter.annotation)
    if parameter.name in FILLING and "Callable" not in annotation:
        return FILLING[parameter.name]
    if "Callable" in annotation:
        return lambda *_: None
    if "Sink" in annotation:
        return Sink.ignore()
    if "Source" in annotation:
        return Source.empty()
    return "1s" if "Duration" in annotation else 2


def stream() -> Any:
    return Topics.in_memory({"a": Source.empty()}).stream("a")


OWNERS: dict[str, Any] = {
    "Source": Source,
    "a source": Source.empty(),
    "Sink": Sink,
    "a topology's stream": stream(),
    "a topology's table": Topics.in_memory({"a": Source.empty()}).table("a"),
    "a topology's groups": stream().group_by_key(),
}


@pytest.mark.parametrize("owner", OWNERS)
def test_a_coroutine_function_is_refused(owner: str) -> None:
    accepted, tried = [], 0
    for method, parameter, arguments in functions_of(OWNERS[owner]):
        where = f"{method}: {parameter}"
        if where in AWAITING or method in ELSEWHERE or parameter in ("mat", "combine", "of"):
            continue
        tried += 1
        try:
            getattr(OWNERS[owner], method)(**arguments)
        except Exception as error:
            if "coroutine function" not in str(error):
                accepted.append(f"{where}: {type(error).__name__} {error}")
        else:
            accepted.append(where)
    assert accepted == []
    assert tried
