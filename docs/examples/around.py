"""Examples of contexts, hubs, topics, kill switches and restarts, which stand around the operators.

By page and operator; see docs/pictures.py for the form of an example."""

from __future__ import annotations

from typing import Final

PICTURES: Final[dict[str, dict[str, tuple[str, ...] | str]]] = {
    "context-operators": {
        "ContextOperators.map": (
            "a.with_context(lambda x: f'at {x}').map(lambda x: x * 10).as_source()",
            "-1--------2|",
        ),
        "ContextOperators.filter": ("a.with_context(str).filter(lambda x: x > 1).as_source()", "-1-----2|"),
        "ContextOperators.grouped": ("a.with_context(str).grouped(2).as_source()", "-1-2|"),
        "ContextOperators.map_async": ("a.with_context(str).map_async(2, wait).as_source()", "-4-1|"),
        "ContextOperators.map_async_partitioned": (
            "a.with_context(str).map_async_partitioned(3, lambda x: x % 2, wait).as_source()",
            "-3-1-2|",
        ),
        "ContextOperators.map_async_unordered": (
            "a.with_context(str).map_async_unordered(2, wait).as_source()",
            "-4-1|",
        ),
        "ContextOperators.map_async_partitioned_unordered": (
            "a.with_context(str).map_async_partitioned_unordered(3, lambda x: x % 2, wait).as_source()",
            "-3-1-2|",
        ),
        "ContextOperators.ask": ("a.with_context(str).ask(tens).as_source()", "-1--------2|"),
        "ContextOperators.ask_with_status": (
            "a.with_context(str).ask_with_status(checked).as_source()",
            "-1--------0|",
        ),
        "ContextOperators.map_context": (
            "a.with_context(str).map_context(lambda at: f'at {at}').as_source()",
            "-1---------2|",
        ),
        "ContextOperators.filter_not": ("a.with_context(str).filter_not(lambda x: x > 1).as_source()", "-1-----2|"),
        "ContextOperators.collect": (
            "a.with_context(str).collect(lambda x: x * 10 if x > 1 else None).as_source()",
            "-1-2|",
        ),
        "ContextOperators.throttle": ("a.with_context(str).throttle(1, 20, burst=1).as_source()", "12|"),
        "ContextOperators.log": ("a.with_context(str).log('numbers').as_source()", "-1--2|"),
        "ContextOperators.map_concat": ("a.with_context(str).map_concat(lambda x: range(x)).as_source()", "-1--2|"),
        "ContextOperators.sliding": ("a.with_context(str).sliding(2).as_source()", "-1-2-3|"),
        "ContextOperators.map_error": (
            "a.with_context(str).map_error(lambda error: ValueError('other')).as_source()",
            "-1-#",
        ),
        "ContextOperators.also_to": ("a.with_context(str).also_to(Sink.foreach(seen.append)).as_source()", "-1--2|"),
        "ContextOperators.also_to_all": (
            "a.with_context(str).also_to_all(Sink.foreach(seen.append), Sink.ignore()).as_source()",
            "-1--2|",
        ),
        "ContextOperators.also_to_context": (
            "a.with_context(str).also_to_context(Sink.foreach(seen.append)).as_source()",
            "-1--2|",
        ),
        "ContextOperators.wire_tap": ("a.with_context(str).wire_tap(Sink.foreach(seen.append)).as_source()", "-1--2|"),
        "ContextOperators.wire_tap_context": (
            "a.with_context(str).wire_tap_context(Sink.foreach(seen.append)).as_source()",
            "-1--2|",
        ),
        "ContextOperators.divert_to": (
            "a.with_context(str).divert_to(Sink.foreach(seen.append), when=lambda x: x > 1).as_source()",
            "-1--2|",
        ),
        "ContextOperators.unsafe_data_via": (
            "a.with_context(str).unsafe_data_via(Flow.map(lambda x: x * 10)).as_source()",
            "-1--2|",
        ),
        "ContextOperators.unsafe_optional_data_via": (
            "numbers = a.map(lambda x: (x if x > 1 else None, str(x))).via(FlowWithContext.identity().as_flow())\n"
            "numbers.with_context(lambda pair: pair[1]).map(lambda pair: pair[0])"
            ".unsafe_optional_data_via(Flow.map(lambda x: x * 10)).as_source()",
            "-1--2|",
        ),
        "ContextOperators.via": (
            "a.with_context(str).via(FlowWithContext.identity().map(lambda x: x * 10)).as_source()",
            "-1--2|",
        ),
        "ContextOperators.via_mat": (
            "watched = FlowWithContext.from_pairs(Flow.identity().watch_termination())\n"
            "a.with_context(str).via_mat(watched, Keep.right).to(Sink.foreach(seen.append)).run()",
            "-1--2|",
        ),
        "ContextOperators.map_materialized_value": (
            "a.with_context(str).map_materialized_value(lambda value: seen.append('run')).as_source()",
            "-1--2|",
        ),
        "ContextOperators.async_boundary": (
            "a.with_context(str).async_boundary().map(lambda x: x * 10).as_source()",
            "-1--2|",
        ),
    },
    "context-with-context": {
        "SourceWithContext.as_source": ("a.with_context(str).as_source()", "-1-----2|"),
        "SourceWithContext.to": ("a.with_context(str).to(Sink.foreach(seen.append)).run()", "-1--2|"),
        "SourceWithContext.to_mat": ("a.with_context(str).to_mat(Sink.to_list(), Keep.right).run()", "-1--2|"),
        "SourceWithContext.run_with": ("a.with_context(str).run_with(Sink.count())", "-1--2|"),
        "FlowWithContext.identity": (
            "a.with_context(str).via(FlowWithContext.identity().map(lambda x: x * 10)).as_source()",
            "-1--2|",
        ),
        "FlowWithContext.of": (
            "a.with_context(str).via(FlowWithContext.of(int, str).filter(lambda x: x > 1)).as_source()",
            "-1--2|",
        ),
        "FlowWithContext.from_pairs": (
            "swap = FlowWithContext.from_pairs(Flow.map(lambda pair: (pair[0] * 10, pair[1])))\n"
            "a.with_context(str).via(swap).as_source()",
            "-1--2|",
        ),
        "FlowWithContext.as_flow": (
            "a.map(lambda x: (x, str(x))).via(FlowWithContext.identity().map(lambda x: x * 10).as_flow())",
            "-1--2|",
        ),
    },
    "restarts": {
        "RestartSource.with_backoff": (
            "RestartSource.with_backoff(RestartSettings(20, 20, random_factor=0), lambda: a).take(4)",
            "-1-2#",
        ),
        "RestartSource.on_failures_with_backoff": (
            "RestartSource.on_failures_with_backoff(RestartSettings(20, 20, random_factor=0), lambda: a)",
            "-1-2|",
        ),
        "RetryFlow.with_backoff": (
            "a.via(RetryFlow.with_backoff(RestartSettings(20, 20, random_factor=0), Flow.map(lambda x: x - 1), "
            "lambda x, y: y or None))",
            "2---1|",
        ),
        "RestartFlow.with_backoff": (
            "a.via(RestartFlow.with_backoff(RestartSettings(20, 20, random_factor=0), lambda: Flow.map(lambda x: 6 // x)))",
            "-1-0---3|",
        ),
        "RestartFlow.on_failures_with_backoff": (
            "settings = RestartSettings(20, 20, random_factor=0)\n"
            "a.via(RestartFlow.on_failures_with_backoff(settings, lambda: Flow.map(lambda x: 6 // x).take(2)))",
            "-1-0---3-1-2|",
        ),
        "RestartSink.with_backoff": (
            "settings = RestartSettings(20, 20, random_factor=0)\n"
            "a.to(RestartSink.with_backoff(settings, lambda: Sink.foreach(lambda x: seen.append(6 // x)))).run()",
            "-1-0---3|",
        ),
        "RestartSink.on_failures_with_backoff": (
            "settings = RestartSettings(20, 20, random_factor=0)\n"
            "a.to(RestartSink.on_failures_with_backoff(settings, lambda: Sink.foreach(lambda x: seen.append(6 // x)))).run()",
            "-1-0---3|",
        ),
        "RetryFlow.with_backoff_and_context": (
            "less = FlowWithContext.identity().map(lambda x: x - 1)\n"
            "settings = RestartSettings(20, 20, random_factor=0)\n"
            "again = RetryFlow.with_backoff_and_context(settings, less, lambda taken, result: result if result[0] else None)\n"
            "a.with_context(str).via(again).as_source()",
            "2---1|",
        ),
    },
    "hubs": {
        "BroadcastHub.sink": ("a.run_with(BroadcastHub.sink()).map(lambda x: x * 10)", "-1-2-3|"),
        "PartitionHub.sink": ("a.run_with(PartitionHub.sink(lambda size, x: x % size))", "-1-2-3|"),
        "MergeHub.source": (
            "into, merged = MergeHub.source().pre_materialize(system)\n"
            "a.run_with(into)\n"
            "b.run_with(into)\n"
            "merged.take(4)",
            "-1---2|",
            "--x---y|",
        ),
        "MergeHub.source_with_draining": """
            from streamactors import Keep, MergeHub, Sink, Source

            (sink, control), result = MergeHub.source_with_draining().to_mat(Sink.to_list(), Keep.both).run()
            for numbers in (range(3), range(10, 12)):
                Source.from_iterable(numbers).run_with(sink).result(timeout=5)
            control.drain_and_complete()
            print(result.result(timeout=5))
        """,
        "MergeHubControl.drain_and_complete": (
            "(into, control), merged = MergeHub.source_with_draining().pre_materialize(system)\n"
            "a.run_with(into)\n"
            "system.clock.settle()\n"
            "control.drain_and_complete()\n"
            "merged",
            "-1---2|",
        ),
        "PartitionHub.stateful_sink": (
            "a.run_with(PartitionHub.stateful_sink(lambda: lambda info, x: min(info.consumer_ids, key=info.queue_size)))",
            "-1-2-3|",
        ),
    },
    "kill-switches": {
        "KillSwitches.single": ("a.via(KillSwitches.single())", "-1-2-3|"),
        "KillSwitches.single_bidi": ("a.via(KillSwitches.single_bidi().join(Flow.map(lambda x: x * 10)))", "-1-2-3|"),
        "KillSwitches.shared": (
            "switch = KillSwitches.shared()\n"
            "b.run_with(Sink.on_complete(lambda error: switch.shutdown()))\n"
            "a.via(switch.flow())",
            "-1-2-3|",
            "----|",
        ),
    },
    "pub-sub": {
        "PubSub.source": (
            "a.run_with(PubSub.sink(topic))\nPubSub.source(topic).take(2)",
            "-x-y-z|",
        ),
        "PubSub.sink": """
            from streamactors import ActorSystem, PubSub, Sink, Source, VirtualClock
            from streamactors.actors import Topic

            with ActorSystem("example", clock=VirtualClock()) as system:
                topic = system.create_actor(Topic)
                first_two = PubSub.source(topic).take(2).run_with(Sink.to_list(), system)
                system.clock.settle()                                    # the source has subscribed
                Source.from_iterable("abc").run_with(PubSub.sink(topic), system)
                print(first_two.result(timeout=5))
        """,
    },
}
