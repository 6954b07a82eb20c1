"""What a newcomer tries and what does not exist: the error names what to write instead."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
import reactivex.operators as rx

from streamactors import ActorSystem, BuildError, Flow, Keep, Sink, Source, Topics
from streamactors.windows import TimeWindows

SOURCE: Any = Source.range(0, 3)
FLOW: Any = Flow.map(str)
TOPICS = Topics.in_memory({"a": Source.empty()})
STREAM: Any = TOPICS.stream("a")
GROUPS: Any = SOURCE.key_by(str)


async def _async_for() -> None:
    async for _ in SOURCE:
        pass


@pytest.mark.parametrize(
    ("attempt", "error", "way_out"),
    [
        (lambda: list(SOURCE), TypeError, "for x in source.run_iter()"),
        (lambda: asyncio.run(_async_for()), TypeError, "async for x in source.run_async_iter()"),
        (lambda: list(FLOW), TypeError, "source.via(flow).run_iter()"),
        (lambda: SOURCE + SOURCE, TypeError, "a.concat(b)"),
        (lambda: SOURCE | FLOW, TypeError, "source >> flow"),
        (lambda: FLOW + FLOW, TypeError, "a >> b"),
        (lambda: SOURCE.result(), AttributeError, "source.run_with(sink) runs it and returns the future"),
        (lambda: SOURCE.to(Sink.ignore()).result(), AttributeError, "a graph has not run"),
        (lambda: SOURCE.to(Sink.ignore()).run().result(), AttributeError, "run_with(sink)"),
        (lambda: FLOW.result(), AttributeError, "source.via(flow).run_with(sink)"),
        (lambda: FLOW.run(), AttributeError, "source.via(flow).run_with(sink)"),
        (lambda: Sink.to_list().run(), AttributeError, "source.run_with(sink)"),
        (lambda: SOURCE.to_list(), AttributeError, "source.run_with(Sink.to_list()).result()"),
        (lambda: SOURCE.foreach(print), AttributeError, "Sink.foreach(fn)"),
        (lambda: SOURCE.flat_map(list), AttributeError, "flat_map_concat(fn)"),
        (lambda: SOURCE.merge_all([SOURCE]), AttributeError, "merge(*others)"),
        (lambda: FLOW.also_to_all(Sink.ignore()), AttributeError, "also_to(*sinks)"),
        (lambda: SOURCE.zip_mat(SOURCE, Keep.both), AttributeError, "zip(…, mat=Keep.both)"),
        (lambda: SOURCE.merge(SOURCE, SOURCE, mat=Keep.both), BuildError, "call merge once for each part"),
        (lambda: SOURCE.run_with(Sink.to_list), BuildError, "; call it: Sink.to_list()"),
        (lambda: SOURCE.run_with(Sink.foreach), BuildError, "; call it: Sink.foreach(…)"),
        (lambda: SOURCE.to_mat(Sink.ignore, Keep.right), BuildError, "; call it: Sink.ignore()"),
        (lambda: SOURCE.run_with(print), BuildError, "; make one of the function: Sink.foreach(print)"),
        (lambda: SOURCE.via(str.upper), BuildError, "; make one of the function: Flow.map(upper)"),
        (lambda: STREAM.run_with(Sink.to_list()), AttributeError, "topics.source(stream).run_with(sink)"),
        (lambda: TOPICS.table("a").run(), AttributeError, "topics.source(table).run_with(sink)"),
        (lambda: STREAM.branch(bool), AttributeError, "one filter(predicate) for each branch"),
        (lambda: STREAM.count(), AttributeError, "group_by_key(), or group_by(fn)"),
        (lambda: STREAM.left_join(STREAM, max), AttributeError, 'join_table(…, how="left") with a table'),
        (lambda: TOPICS.table("a").left_join(STREAM, max), AttributeError, 'join(table, fn, how="left")'),
        (lambda: TOPICS.table("a").select_key(str), AttributeError, "to_stream() emits the updates of a table"),
        (lambda: STREAM.group_by_key().run(), AttributeError, "aggregate them: .count()"),
        (lambda: GROUPS.run_with(Sink.to_list()), AttributeError, "aggregate them: .count()"),
        (lambda: GROUPS.count().run_with(Sink.to_list()), AttributeError, "table.to_stream().run_with(sink)"),
        (
            lambda: GROUPS.windowed_by(TimeWindows.of_size("1m").with_no_grace()).count().run_with(Sink.to_list()),
            AttributeError,
            "table.to_stream().run_with(sink)",
        ),
        (
            lambda: SOURCE.group_by(str, 3).run_with(Sink.to_list()),
            AttributeError,
            ".merge_substreams().run_with(sink)",
        ),
        (
            lambda: SOURCE.map(print()),
            BuildError,
            "got NoneType None; give the function itself, without a call: fn, not fn()",
        ),
        (lambda: STREAM.map_values(print()), BuildError, "give the function itself, without a call: fn, not fn()"),
        (
            lambda: SOURCE.run_with(Sink.to_list(), "mine"),
            BuildError,
            "a stream runs on an ActorSystem, got str 'mine'",
        ),
        (lambda: SOURCE.run_with(Sink.to_list(), ActorSystem), BuildError, "ActorSystem('name') makes one"),
        (lambda: SOURCE.map(rx.map(str)), BuildError, "use .rx(rx.map(fn), …)"),
        (lambda: SOURCE.via(Flow), BuildError, "use a constructor such as Flow.map(…)"),
        (lambda: SOURCE.run_with(Sink), BuildError, "use a constructor such as Sink.foreach(…)"),
        (lambda: Sink.to_file(""), BuildError, "to_file expects a path, got an empty string"),
        (lambda: Source.from_csv(""), BuildError, "from_csv expects a path, got an empty string"),
    ],
)
def test_the_error_names_the_way_out(attempt: Any, error: type[Exception], way_out: str) -> None:
    with pytest.raises(error, match=re.escape(way_out)):
        attempt()


def test_other_names_are_missing_as_everywhere() -> None:
    with pytest.raises(AttributeError, match="'Source' object has no attribute 'mapp'") as missing:
        SOURCE.mapp(str)
    assert (missing.value.name, missing.value.obj) == ("mapp", SOURCE)  # Python adds "Did you mean: 'map'?"
    assert not hasattr(SOURCE, "shape")


@pytest.mark.parametrize(
    ("elements", "said"),
    [
        ({"a": 1}, "its elements are its keys; Source.from_iterable(d.items())"),
        ("data/rows.csv", "its elements are its characters; .*Source.from_lines(path)"),
        (b"abc", "its elements are integers; Source.single(data)"),
        ("abc", None),
        (["abc"], None),
    ],
)
def test_an_iterable_that_gives_surprising_elements_is_warned_of(
    elements: Any, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    Source.from_iterable(elements)
    if said is None:
        assert caplog.text == ""
    else:
        assert re.search(re.escape(said).replace(r"\.\*", ".*"), caplog.text)
