"""What can run on executors, and what is refused when the graph is built, by the stage's name."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import BuildError, Flow, RunnableGraph, Sink, Source
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Subscriptions,
)
from streamactors.spark.executors.translate import explained, translate
from streamactors.windows import TimeWindows
from tests.spark.executors._plain import spark_end

SERVERS = "localhost:9"
SETTINGS = ConsumerSettings(SERVERS, group_id="g", auto_offset_reset="earliest")
TOPIC = Subscriptions.topics("t")


def source() -> Any:
    return Consumer.source(SETTINGS, TOPIC)


def records(**more: Any) -> Any:
    return Consumer.records(SETTINGS, TOPIC, key="string", value="json", **more)


def of_topics(build: Any) -> Any:
    topics = Consumer.topics(SETTINGS)
    return topics.source(build(topics))


async def awaited(element: Any) -> Any:
    return element


ACCEPTED = {
    "maps": lambda: source().map(str).filter(None).collect(str),
    "concat": lambda: source().map_concat(list),
    "async": lambda: source().map_async(4, awaited),
    "boundary": lambda: source().map(str).async_boundary().map(str),
    "buffer": lambda: source().buffer(10, "backpressure"),
    "log": lambda: source().log("seen"),
    "windows": lambda: (
        records().group_by_key().windowed_by(TimeWindows.of_size(10).with_no_grace()).count().to_stream().map(str)
    ),
    "table": lambda: records().filter(bool).to_table().filter(bool).to_stream(),
    "errors": lambda: records(errors="emit"),
    "buried": lambda: records(dead_letters="dead"),
    "plain": lambda: Consumer.plain_source(SETTINGS, TOPIC),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_chains_that_remember_nothing_and_keep_the_order_are_accepted(name: str) -> None:
    graph = ACCEPTED[name]().to(spark_end())
    assert translate(graph.module).plan.settings == SETTINGS
    assert "cannot run" not in explained(graph.module)


REFUSED = {
    "scan": (lambda: source().scan(0, max), r"stage 'scan' remembers earlier elements"),
    "grouped": (lambda: source().grouped(3), r"stage 'grouped' remembers"),
    "take": (lambda: source().take(3), r"stage 'take' remembers"),
    "sliding": (lambda: source().sliding(3), r"stage 'sliding' remembers"),
    "index": (lambda: source().zip_with_index(), r"stage 'zip_with_index' remembers"),
    "repeated": (lambda: source().drop_repeated(), r"stage 'drop_repeated' remembers"),
    "unordered": (
        lambda: source().map_async_unordered(4, awaited),
        r"stage 'map_async_unordered' does not keep the order .*use map_async for",
    ),
    "throttle": (lambda: source().throttle(5, per="1ms"), r"stage 'throttle' would limit the rate of each task"),
    "merge": (lambda: source().merge(Source.range(0, 3)), r"graphs of one source, and this one has .*'range'"),
    "alongside": (lambda: source().also_to(Sink.ignore()), r"stage 'also_to' joins or splits streams"),
    "diverted": (
        lambda: source().divert_to(Sink.foreach(print), bool),
        r"what divert_to takes out of the stream ends in 'foreach'; it must end in a topic, or use errors=",
    ),
    "range": (
        lambda: Source.range(0, 3),
        r"source 'range' has no positions that executors can read from; write it to a topic",
    ),
    "committable": (lambda: Consumer.committable_source(SETTINGS, TOPIC), r"commits in a way of its own"),
    "shared": (
        lambda: Consumer.shared(SETTINGS).source(Subscriptions.assignment(("t", 0))),
        r"shares a consumer of this process",
    ),
    "once": (lambda: Consumer.at_most_once_source(SETTINGS, TOPIC), r"commits in a way of its own"),
    "partitioned": (lambda: Consumer.partitioned_source(SETTINGS, TOPIC), r"has no positions that executors can read"),
    "twice": (
        lambda: records().group_by_key().count().to_stream().map(str).group_by_key().count().to_stream(),
        r"follows other windows; write the results of the first to a topic",
    ),
    "keyed": (
        lambda: records().keyed(lambda state, row: (state, [])),
        r"keyed, process and join_lookup run in one process.* run the graph by graph\.run\(\)",
    ),
    "lookup": (
        lambda: records().join_lookup(str),
        r"keyed, process and join_lookup run in one process",
    ),
    "several": (
        lambda: (
            Consumer.records(SETTINGS, Subscriptions.topics("a", "b"))
            .group_by_key(max_task_idle="1s")
            .count()
            .to_stream()
        ),
        r"has a max_task_idle, and a batch waits for no topic: .* leave max_task_idle out",
    ),
    "joined": (
        lambda: of_topics(lambda topics: topics.stream("a").join_table(topics.table("b"), lambda a, b: (a, b))),
        r"Consumer\.topics \(joins, tables and streams of topics: a, b\) runs in one process, .* or read each topic as a DataFrame with "
        r"SparkSource\.frame and join the DataFrames in Spark",
    ),
    "joined by a foreign key": (
        lambda: of_topics(lambda topics: topics.table("a").join_foreign_key(topics.table("b"), str, lambda a, b: a)),
        r"Consumer\.topics \(joins, tables and streams of topics: a, b\) runs in one process",
    ),
    "grouped by another key": (
        lambda: of_topics(lambda topics: topics.stream("a").group_by(str).count().to_stream()),
        r"Consumer\.topics \(joins, tables and streams of topics: a\) runs in one process",
    ),
    "keys": (
        lambda: records().key_by(str).count(name="a").to_stream().key_by(str).count(name="b").to_stream(),
        r"graphs of one source, and this one has .* after a second key_by, through_topic or a merge use two graphs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_task_cannot_do_is_refused_by_name_with_the_way_out(name: str) -> None:
    make, says = REFUSED[name]
    graph = make().to(spark_end())
    with pytest.raises(BuildError, match=says):
        translate(graph.module)
    assert "cannot run" in explained(graph.module)


@pytest.mark.parametrize(
    ("sink", "name"),
    [
        (lambda: Sink.foreach(print), "foreach"),
        (lambda: Sink.to_list(), "to_list"),
    ],
)
def test_a_sink_of_this_process_is_refused(sink: Any, name: str) -> None:
    with pytest.raises(BuildError, match=rf"the effect or value of sink '.*({name}).*' is in this process"):
        translate(source().to(sink()).module)


def test_a_late_sink_of_this_process_is_refused_too() -> None:
    windows = (
        records()
        .group_by_key()
        .windowed_by(TimeWindows.of_size(10).with_no_grace(), late=Sink.foreach(print))
        .count()
        .to_stream()
    )
    with pytest.raises(BuildError, match="the effect or value of sink 'foreach'"):
        translate(windows.to(spark_end()).module)


def test_explain_says_of_each_stage_where_it_runs() -> None:
    windows = (
        records()
        .map_concat(list)
        .async_boundary()
        .group_by_key()
        .windowed_by(TimeWindows.of_size(10).with_no_grace())
        .count()
    )
    graph: RunnableGraph[Any] = windows.to_stream().via(Flow.map(str).named("text")).grouped(4).to(spark_end())
    lines = [line.split("  ", 1) for line in explained(graph.module).splitlines()]
    found = {label.strip(): where.strip() for label, where in lines}
    assert found["Consumer.records"] == "executors: one task per partition reads its range of t"
    assert found["map"] == "executors: generated loop"
    assert found["map_concat"] == "executors: on the engine within the task"
    assert found["async_boundary"].startswith("dropped")
    assert found["windows"] == "executors: windows, their state in the checkpoint"
    assert found["text"] == "executors: generated loop"
    assert found["grouped"].startswith("cannot run: stage 'grouped' remembers")
    assert found["SparkSink.foreach_batch"].startswith("Spark: the results are a DataFrame")
