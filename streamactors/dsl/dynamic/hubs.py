"""MergeHub, BroadcastHub, PartitionHub: parts that join a running stream from other runs.

A hub is materialized once. What it materializes, a Sink or a Source, can be run any number of times while the hub runs. Without demand,
or without partners, a hub makes its streams wait; it drops nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.dsl.typevars import T
from streamactors.engine.blueprint.modules import MatMapped, Module, StageModule
from streamactors.engine.stage import GraphStage
from streamactors.engine.user_code import shortened
from streamactors.stages.checks import plain_function
from streamactors.stages.hubs.broadcast_hub import BroadcastHubConsumer, BroadcastHubSink, Exchange
from streamactors.stages.hubs.merge_hub import PER_PRODUCER, HubEntrance, MergeHubProducer, MergeHubSource
from streamactors.stages.hubs.partition_hub import (
    ConsumerInfo,
    Counter,
    PartitionHubConsumer,
    PartitionHubSink,
    Route,
)
from streamactors.stages.hubs.shared import BUFFER


class MergeHubControl:
    """Ends a MergeHub that was made by `source_with_draining`."""

    def __init__(self, entrance: HubEntrance) -> None:
        self._entrance = entrance

    def drain_and_complete(self) -> None:
        """Cancel streams that are run into the hub from now on; complete the hub when those that run have completed. Any thread.

        Example:
            a -1---2|
            (into, control), merged = MergeHub.source_with_draining().pre_materialize(system)
            a.run_with(into)
            system.clock.settle()
            control.drain_and_complete()
            merged
        """
        self._entrance.drain()


class MergeHub:
    """Joins streams that are not known when the graph is built.

    sink = MergeHub.source().to(Sink.foreach(print)).run()    # a Sink
    Source.range(3).run_with(sink)                            # any number of times
    """

    @staticmethod
    def source(per_producer_buffer: int = PER_PRODUCER) -> Source[Any, Sink[Any, StreamFuture[None]]]:
        """Return a source of the elements of every stream that is run into the materialized sink.

        A run of the sink materializes a future that ends when the hub has emitted all elements of that stream.
        Emits when: an element has come and there is demand.
        Backpressures when: a producer has `per_producer_buffer` elements in the hub; this producer waits.
        Completes when: never.                        Cancels when: downstream cancels; the producers are cancelled.
        Fails when: never; a producer that fails leaves.

        Example:
            a -1---2|
            b --x---y|
            into, merged = MergeHub.source().pre_materialize(system)
            a.run_with(into)
            b.run_with(into)
            merged.take(4)
        """
        return Source(MatMapped(StageModule(MergeHubSource(per_producer_buffer)), _producer))

    @staticmethod
    def source_with_draining(
        per_producer_buffer: int = PER_PRODUCER,
    ) -> Source[Any, tuple[Sink[Any, StreamFuture[None]], MergeHubControl]]:
        """As `source`; the materialized value is (sink, control), and `control.drain_and_complete()` ends the hub.

        Example:
            from streamactors import Keep, MergeHub, Sink, Source

            (sink, control), result = MergeHub.source_with_draining().to_mat(Sink.to_list(), Keep.both).run()
            for numbers in (range(3), range(10, 12)):
                Source.from_iterable(numbers).run_with(sink).result(timeout=5)
            control.drain_and_complete()
            print(result.result(timeout=5))
        """
        return Source(
            MatMapped(
                StageModule(MergeHubSource(per_producer_buffer)),
                lambda entrance: (_producer(entrance), MergeHubControl(entrance)),
            )
        )


class BroadcastHub:
    """Gives a running stream to consumers that are not known when the graph is built: each gets every element.

    source = Source.tick("1s", "1s", "tick").run_with(BroadcastHub.sink())   # a Source
    source.run_with(Sink.foreach(print))                                     # any number of times
    """

    @staticmethod
    def sink(buffer: int = BUFFER, start_after: int = 0) -> Sink[Any, Source[Any, Any]]:
        """Return a sink that materializes the source of the consumers. The slowest consumer sets the pace.

        The first consumer gets everything from the first element on; one that joins others gets what comes after it has joined.
        Backpressures when: the slowest consumer is `buffer` elements behind, fewer than `start_after` consumers have joined, or none is
        left.
        Completes when: upstream completes; each consumer gets the rest first.
        Fails when: upstream fails: all consumers fail at once.

        Example:
            a -1-2-3|
            a.run_with(BroadcastHub.sink()).map(lambda x: x * 10)
        """
        return Sink(_consumed(BroadcastHubSink(buffer, start_after), _broadcast))


class PartitionHub:
    """Gives a running stream to consumers that are not known when the graph is built: each element goes to one of them."""

    @staticmethod
    def sink(partition: Callable[[int, T], int], start_after: int = 0, buffer: int = BUFFER) -> Sink[T, Source[T, Any]]:
        """Return a sink that materializes the source of the consumers; `partition(number of consumers, element)` returns the index of the
        consumer that gets the element, in the order in which they have joined. A negative index drops the element.

        Elements that a consumer has not taken when it cancels are routed again.
        Backpressures when: `buffer` elements wait in all, fewer than `start_after` consumers have joined, or none is left.
        Completes when: upstream completes; each consumer gets the rest first.
        Fails when: upstream or `partition` fails, or the index is too large: all consumers fail at once.

        Example:
            a -1-2-3|
            a.run_with(PartitionHub.sink(lambda size, x: x % size))
        """
        plain_function("PartitionHub.sink", partition)

        def route(info: ConsumerInfo, element: Any) -> int:
            index = partition(info.size, element)
            if index < 0:
                return -1
            if index >= info.size:
                raise IndexError(
                    f"PartitionHub: partition returned {shortened(index, 60)} for {info.size} consumers; "
                    "give an index below that number, or a negative one to drop the element"
                )
            return info.consumer_ids[index]

        return PartitionHub.stateful_sink(lambda: route, start_after, buffer)

    @staticmethod
    def stateful_sink(
        make: Callable[[], Route], start_after: int = 0, buffer: int = BUFFER
    ) -> Sink[Any, Source[Any, Any]]:
        """As `sink`; `make()` returns, once per run, a function `route(info, element)` that returns the id of a consumer.

        `info.consumer_ids` are the ids, `info.size` their number, `info.queue_size(id)` the elements that wait for a consumer.

        Example:
            a -1-2-3|
            a.run_with(PartitionHub.stateful_sink(lambda: lambda info, x: min(info.consumer_ids, key=info.queue_size)))
        """
        return Sink(_consumed(PartitionHubSink(make, start_after, buffer), _partition))


def _producer(entrance: HubEntrance) -> Sink[Any, StreamFuture[None]]:
    return Sink(StageModule(MergeHubProducer(entrance)))


def _consumed(hub: GraphStage, source: Callable[[Any], Any]) -> Module:
    return MatMapped(StageModule(hub), source)


def _broadcast(exchange: Exchange) -> Source[Any, Any]:
    return Source(StageModule(BroadcastHubConsumer(exchange)))


def _partition(counter: Counter) -> Source[Any, Any]:
    return Source(StageModule(PartitionHubConsumer(counter)))
