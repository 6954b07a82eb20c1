"""What users try on a Source, a Flow or a Sink that these do not have, and what to write instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamactors.engine.suggestions import FUTURE_NAMES, Suggestions, refusing

_OPERATORS: Final = {
    **{
        f"{name}_mat": f"{name}(…, mat=Keep.both)"
        for name in ("merge", "concat", "zip", "also_to", "divert_to", "wire_tap")
    },
    "flat_map": "map_concat(fn) is for an fn that returns a list, flat_map_concat(fn) for one that returns a Source",
    "apply": "use map(fn)",
    "select": "use map(fn)",
    "where": "use filter(predicate)",
    "pipe": "use via(flow)",
    "head": "take(n) passes the first n elements, the sink Sink.head() takes the first",
    "first": "the sink Sink.head() takes the first element",
    "last": "the sink Sink.last() takes the last element",
    "count": "the sink Sink.fold(0, lambda n, _: n + 1) counts",
    "to_list": "the sink Sink.to_list() makes a list: source.run_with(Sink.to_list()).result()",
    "foreach": "the sink Sink.foreach(fn) calls fn: source.run_with(Sink.foreach(fn)).result()",
    "for_each": "the sink Sink.foreach(fn) calls fn: source.run_with(Sink.foreach(fn)).result()",
    "run_foreach": "the sink Sink.foreach(fn) calls fn: source.run_with(Sink.foreach(fn)).result()",
    "merge_all": "merge(*others)",
    "interleave_all": "interleave(*others)",
    "concat_all_lazy": "concat_lazy(*others)",
    "also_to_all": "also_to(*sinks)",
    "subscribe": "the sink Sink.foreach(fn) calls fn: source.run_with(Sink.foreach(fn)).result()",
}

_SWITCH: Final = (
    "a kill switch is what the flow materializes: source.via_mat(KillSwitches.single(), Keep.right).to_mat(sink, Keep.both).run() "
    "returns it with the sink's future"
)


class SourceSuggestions(Suggestions):
    """Mix-in of Source."""

    __slots__ = ()
    _suggestions = _OPERATORS | dict.fromkeys(
        FUTURE_NAMES, "a source has not run; source.run_with(sink) runs it and returns the future of the sink"
    )

    if not TYPE_CHECKING:
        __iter__ = refusing(
            "iteration",
            "its elements come when it runs: for x in source.run_iter(), or source.run_with(Sink.to_list()).result()",
        )
        __aiter__ = refusing(
            "async iteration", "its elements come when it runs: async for x in source.run_async_iter()"
        )
        __add__ = refusing("+", "a.concat(b) emits b's elements after a's, a.merge(b) those of both as they come")
        __or__ = refusing("|", "source.via(flow) or source >> flow, source.to(sink) or source >> sink")


class FlowSuggestions(Suggestions):
    """Mix-in of Flow."""

    __slots__ = ()
    _suggestions = (
        _OPERATORS
        | dict.fromkeys(
            FUTURE_NAMES, "a flow has not run and needs a source: source.via(flow).run_with(sink) returns a future"
        )
        | {
            "run": "a flow needs a source and a sink: source.via(flow).run_with(sink)",
            "shutdown": _SWITCH,
            "abort": _SWITCH,
            "run_iter": "a flow needs a source: source.via(flow).run_iter()",
            "run_async_iter": "a flow needs a source: source.via(flow).run_async_iter()",
        }
    )

    if not TYPE_CHECKING:
        __iter__ = refusing("iteration", "a flow needs a source: for x in source.via(flow).run_iter()")
        __aiter__ = refusing(
            "async iteration", "a flow needs a source: async for x in source.via(flow).run_async_iter()"
        )
        __add__ = refusing("+", "a.via(b), or a >> b, puts the flow b after a")
        __or__ = refusing("|", "a.via(b), or a >> b, puts the flow b after a")


class SinkSuggestions(Suggestions):
    """Mix-in of Sink."""

    __slots__ = ()
    _suggestions = dict.fromkeys(
        (*FUTURE_NAMES, "run"), "a sink needs a source: source.run_with(sink) runs both and returns the sink's future"
    )
