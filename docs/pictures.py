"""Examples of operators, run over virtual time, and drawn as marbles: what stands under the operators in docs/operators/.

An example is an expression and the marbles of its inputs `a`, `b`, `c`. Digits are numbers. `python -m docs.generate` runs it and draws the
inputs and the result, frame under frame; a result that is a future (a sink's) is shown in the frame in which it came."""

from __future__ import annotations

import asyncio
import io
import logging
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, Final

import streamactors
from streamactors import Source, StreamFuture
from streamactors.testing.marble_text import Marble, parse
from streamactors.testing.marbles import Marbles

PICTURES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "operators-transform": {
        "map": ("a.map(lambda x: x * 10)", "-1-2-3|"),
        "filter": ("a.filter(lambda x: x % 2)", "-1-2-3|"),
        "filter_not": ("a.filter_not(lambda x: x % 2)", "-1-2-3|"),
        "collect": ("a.collect(lambda x: x * 10, when=int)", "-1-x-3|"),
        "collect_type": ("a.collect_type(int)", "-1-x-3|"),
        "collect_first": ("a.collect_first(lambda x: x if x > 1 else None)", "-1-2-3|"),
        "collect_while": ("a.collect_while(lambda x: x if x < 3 else None)", "-1-2-3|"),
        "flatten_optional": ("a.map(lambda x: x if x > 1 else None).flatten_optional()", "-1-2-3|"),
        "map_concat": ("a.map_concat(lambda x: [x] * x)", "-1-2-3|"),
        "map_chunks": ("a.map_chunks(lambda xs: [sum(xs)])", "-(12)-3|"),
        "zip_with_index": ("a.zip_with_index()", "-x--y|"),
        "intersperse": ("a.intersperse(',')", "-1-2-3|"),
    },
    "operators-fold": {
        "scan": ("a.scan(0, lambda total, x: total + x)", "-1-2-3|"),
        "fold": ("a.fold(0, lambda total, x: total + x)", "-1-2-3|"),
        "fold_while": ("a.fold_while(0, lambda total: total < 3, lambda total, x: total + x)", "-1-2-3|"),
        "accumulate": ("a.accumulate()", "-1-2-3|"),
        "reduce": ("a.reduce(max)", "-1-3-2|"),
        "stateful_map": ("a.stateful_map(lambda: 0, lambda n, x: (n + 1, x * n))", "-1-2-3|"),
        "stateful_map_concat": ("a.stateful_map_concat(lambda: lambda x: [x, -x])", "-1--2|"),
        "pairwise": ("a.pairwise()", "-1--2--3|"),
        "grouped": ("a.grouped(2)", "-1--2--3|"),
        "sliding": ("a.sliding(2)", "-1--2--3|"),
        "grouped_within": ("a.grouped_within(9, 40)", "-1-2---3--4|"),
        "grouped_weighted": ("a.grouped_weighted(3, lambda x: x)", "-1--2--3|"),
        "grouped_weighted_within": ("a.grouped_weighted_within(3, 30, lambda x: x)", "-1--2-----1|"),
        "grouped_adjacent_by": ("a.grouped_adjacent_by(lambda x: x % 2)", "-1--3--2|"),
        "grouped_adjacent_by_weighted": (
            "a.grouped_adjacent_by_weighted(lambda x: x % 2, 5, lambda x: x)",
            "-1--3--5|",
        ),
        "aggregate_with_boundary": (
            "a.aggregate_with_boundary(list, lambda xs, x: ([*xs, x], x == 0), sum)",
            "-1-2-0-3|",
        ),
        "quantiles": ("a.quantiles([0.5])", "-1-2-9|"),
    },
    "operators-limit": {
        "take": ("a.take(2)", "-1-2-3|"),
        "take_while": ("a.take_while(lambda x: x < 3)", "-1-2-3-1|"),
        "take_until": ("a.take_until(lambda x: x == 2)", "-1-2-3|"),
        "take_within": ("a.take_within(40)", "-1-2-3|"),
        "drop": ("a.drop(1)", "-1-2-3|"),
        "drop_while": ("a.drop_while(lambda x: x < 3)", "-1-2-3-1|"),
        "drop_within": ("a.drop_within(40)", "-1-2-3|"),
        "drop_repeated": ("a.drop_repeated()", "-1-1-2-1|"),
        "distinct": ("a.distinct()", "-1-1-2-1|"),
        "limit": ("a.limit(2)", "-1-2-3|"),
        "limit_weighted": ("a.limit_weighted(3, lambda x: x)", "-1-2-3|"),
    },
    "operators-rate": {
        "buffer": ("a.buffer(2)", "-1-2-3|"),
        "conflate": ("a.conflate(lambda x, y: x + y).max_chunk(1).throttle(1, 50, burst=1).max_chunk(1)", "1-2-3-4|"),
        "batch": ("a.batch(2, lambda x: [x], lambda xs, x: [*xs, x]).throttle(1, 50, burst=1)", "1234|"),
        "throttle": ("a.throttle(1, 20, burst=1)", "123|"),
        "extrapolate": ("a.zip(b.extrapolate(itertools.repeat))", "-1-2-3|", "x----y|"),
    },
    "operators-timing": {
        "delay": ("a.delay(20)", "-1-2-3|"),
        "delay_with": ("a.delay_with(lambda: lambda x: x * 10)", "-3-1-1|"),
        "sample": ("a.sample(30)", "-1-2-3-4|"),
        "debounce": ("a.debounce(20)", "12---3|"),
        "initial_delay": ("a.initial_delay(30)", "-1-2-3|"),
        "initial_timeout": ("a.initial_timeout('30ms')", "-----1|"),
        "completion_timeout": ("a.completion_timeout('40ms')", "-1-2-3|"),
        "idle_timeout": ("a.idle_timeout('30ms')", "-1-2-----3|"),
        "keep_alive": ("a.keep_alive(20, lambda: 0)", "-1-----2|"),
    },
    "operators-junctions": {
        "merge": ("a.merge(b)", "-1---2|", "--x-----y|"),
        "merge_preferred": ("a.merge_preferred(b)", "-1---2|", "--x-----y|"),
        "merge_all": ("a.merge_all([b, c])", "-1---2|", "--x|", "---y|"),
        "merge_sorted": ("a.merge_sorted(b)", "-1---5|", "--2-6|"),
        "merge_sequence": ("a.merge_sequence(b, number=lambda x: x)", "0---1|", "-2|"),
        "merge_prioritized": ("a.merge_prioritized(b, priorities=[3, 1])", "-1---2|", "--x|"),
        "merge_latest": ("a.merge_latest(b)", "-1----2|", "--x|"),
        "concat": ("a.concat(b)", "-1-2|", "-x-y|"),
        "concat_lazy": ("a.concat_lazy(b)", "-1-2|", "-x-y|"),
        "prepend": ("a.prepend(b)", "-1-2|", "-x-y|"),
        "or_else": ("a.or_else(b)", "---|", "-x-y|"),
        "interleave": ("a.interleave(b)", "12|", "xyz|"),
        "interleave_all": ("a.interleave_all([b, c])", "12|", "xy|", "z|"),
        "zip": ("a.zip(b)", "-1-----2|", "---x---y|"),
        "zip_with": ("a.zip_with(b, lambda x, y: x * y)", "-1---2|", "--3---4|"),
        "zip_all": ("a.zip_all(b, 0, 0)", "-1----2|", "--3|"),
        "zip_latest": ("a.zip_latest(b)", "-1-----2|", "---x|"),
        "zip_latest_with": ("a.zip_latest_with(b, lambda x, y: x + y, eager_complete=False)", "-1-----2|", "--3|"),
        "optional_via": ("a.collect(lambda x: x, when=int).optional_via(Flow.map(lambda x: x * 10))", "-1-2|"),
        "also_to": ("a.also_to(Sink.ignore())", "-1-2-3|"),
        "divert_to": ("a.divert_to(Sink.ignore(), when=lambda x: x == 2)", "-1-2-3|"),
        "wire_tap": ("a.wire_tap(lambda x: None)", "-1-2-3|"),
    },
    "operators-substreams": {
        "flat_map_concat": ("a.flat_map_concat(lambda x: b.map(lambda y: f'{x}{y}'))", "1---2|", "xy--z|"),
        "flat_map_merge": ("a.flat_map_merge(2, lambda x: b.map(lambda y: f'{x}{y}'))", "1----2|", "xy------z|"),
        "flatten_concat": ("a.map(lambda x: Source.range(x)).flatten_concat()", "-2---3|"),
        "flatten_merge": ("a.map(lambda x: Source.range(x)).flatten_merge(2)", "-2---3|"),
        "switch_map": ("a.switch_map(lambda x: b.map(lambda y: f'{x}{y}'))", "1---2|", "xy---z|"),
        "prefix_and_tail": ("a.prefix_and_tail(1).flat_map_concat(lambda pair: pair[1])", "-1-2-3|"),
        "flat_map_prefix": ("a.flat_map_prefix(1, lambda first: Flow.map(lambda x: x * first[0]))", "-2-3-4|"),
        "group_by": ("a.group_by(lambda x: x % 2, 2).scan(0, lambda n, x: n + x).merge_substreams()", "-1---2---3|"),
        "split_when": ("a.split_when(lambda x: x == 1).reduce(lambda x, y: x + y).concat_substreams()", "123-12|"),
        "split_after": ("a.split_after(lambda x: x == 3).reduce(lambda x, y: x + y).concat_substreams()", "123-12|"),
    },
    "operators-asynchronous": {
        "map_async": ("a.map_async(2, wait)", "4-1---2|"),
        "map_async_unordered": ("a.map_async_unordered(2, wait)", "4-1---2|"),
        "map_async_partitioned": ("a.map_async_partitioned(3, lambda x: x % 2, wait)", "3-1-2|"),
        "map_async_partitioned_unordered": ("a.map_async_partitioned_unordered(3, lambda x: x % 2, wait)", "3-1-2|"),
        "scan_async": ("a.scan_async(0, add)", "-1----2|"),
        "fold_async": ("a.fold_async(0, add)", "-1----2|"),
    },
    "operators-errors": {
        "map_error": ("a.map_error(lambda error: ValueError('other'))", "-1-2#"),
        "recover": ("a.recover(lambda error: 0)", "-1-2#"),
        "recover_with": ("a.recover_with(lambda error: b)", "-1-2#", "-x-y|"),
        "recover_with_retries": ("a.recover_with_retries(1, lambda error: b)", "-1-2#", "-x-#"),
        "on_error_complete": ("a.on_error_complete()", "-1-2#"),
        "on_error_resume": ("a.on_error_resume(lambda error: b)", "-1-2#", "-x-y|"),
        "on_error_continue": ("a.map(lambda x: 6 // x).on_error_continue()", "-1-0-3|"),
        "retry": (
            "a.via(Flow.map(lambda x: 6 // x).retry(2, RestartSettings(20, 20, random_factor=0), dead_letters=Sink.ignore()))",
            "1-0-3|",
        ),
    },
    "operators-watching": {
        "do_on_first": ("a.do_on_first(lambda x: None)", "-1-2-3|"),
        "monitor": ("a.monitor()", "-1-2-3|"),
        "meter": ("a.meter('1s')", "-1-2-3|"),
        "watch_termination": ("a.watch_termination()", "-1-2-3|"),
    },
    "operators-compose": {
        "via": ("a.via(Flow.map(lambda x: x + 1))", "-1-2-3|"),
        "async_boundary": ("a.async_boundary().map(lambda x: x + 1)", "-1-2-3|"),
    },
    "operators-rx": {"rx": ("a.via(Flow.rx(rx.pairwise()))", "-1--2--3|")},
    "operators-bytes": {
        "frames_by_delimiter": (
            "a.map(lambda x: f'{x};'.encode()).frames_by_delimiter(b';', max_length=9)",
            "-1----2|",
        ),
        "lines": ("a.map(lambda x: b'x' * x + b'\\n').lines()", "-1--2--3|"),
        "decode": ("a.map(lambda x: str(x).encode()).decode()", "-1-2-3|"),
    },
    "operators-rows": {"parse_json_lines": ("a.map(lambda x: b'[%d]\\n' % x).parse_json_lines()", "-1---2|")},
    "operators-windows": {
        "group_by_key": (
            "a.map(lambda x: Record('k', x, timestamp=x)).group_by_key().count().to_stream().map(lambda r: r.value)",
            "-1-2-3|",
        ),
    },
    "operators-context": {"with_context": ("a.with_context(lambda x: x * 10).as_source()", "-1----2|")},
    "context-operators": {
        "ContextOperators.map": (
            "a.with_context(lambda x: f'at {x}').map(lambda x: x * 10).as_source()",
            "-1--------2|",
        ),
        "ContextOperators.filter": ("a.with_context(str).filter(lambda x: x > 1).as_source()", "-1-----2|"),
        "ContextOperators.grouped": ("a.with_context(str).grouped(2).as_source()", "-1-2|"),
    },
    "context-with-context": {
        "SourceWithContext.as_source": ("a.with_context(str).as_source()", "-1-----2|"),
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
    },
    "hubs": {
        "BroadcastHub.sink": ("a.run_with(BroadcastHub.sink()).map(lambda x: x * 10)", "-1-2-3|"),
        "PartitionHub.sink": ("a.run_with(PartitionHub.sink(lambda size, x: x % size))", "-1-2-3|"),
    },
    "kill-switches": {"KillSwitches.single": ("a.via(KillSwitches.single())", "-1-2-3|")},
    "sinks-values": {
        "foreach": ("a.run_with(Sink.foreach(lambda x: None))", "-1-2-3|"),
        "foreach_async": ("a.run_with(Sink.foreach_async(2, wait))", "-1-2-3|"),
        "ignore": ("a.run_with(Sink.ignore())", "-1-2-3|"),
        "to_list": ("a.run_with(Sink.to_list())", "-1-2-3|"),
        "head": ("a.run_with(Sink.head())", "-1-2-3|"),
        "head_option": ("a.run_with(Sink.head_option())", "---|"),
        "last": ("a.run_with(Sink.last())", "-1-2-3|"),
        "last_option": ("a.run_with(Sink.last_option())", "---|"),
        "fold": ("a.run_with(Sink.fold(0, lambda total, x: total + x))", "-1-2-3|"),
        "fold_while": ("a.run_with(Sink.fold_while(0, lambda n: n < 3, lambda n, x: n + x))", "-1-2-3|"),
        "reduce": ("a.run_with(Sink.reduce(max))", "-1-3-2|"),
        "count": ("a.run_with(Sink.count())", "-1-2-3|"),
        "take_last": ("a.run_with(Sink.take_last(2))", "-1-2-3|"),
        "exists": ("a.run_with(Sink.exists(lambda x: x == 2))", "-1-2-3|"),
        "for_all": ("a.run_with(Sink.for_all(lambda x: x < 2))", "-1-2-3|"),
        "none": ("a.run_with(Sink.none(lambda x: x > 3))", "-1-2-3|"),
    },
    "sinks-outside": {
        "on_complete": ("a.run_with(Sink.on_complete(lambda error: None))", "-1-2-3|"),
        "source": ("a.run_with(Sink.source())", "-1-2-3|"),
    },
    "sources-computed": {
        "unfold": ("Source.unfold(3, lambda n: (n - 1, n) if n else None)",),
        "iterate": ("Source.iterate(1, lambda x: x * 2, while_=lambda x: x < 9)",),
        "tick": ("Source.tick(20, 30, 't').take(3)",),
        "future": ("Source.future(a.run_with(Sink.count()))", "-1-2|"),
        "lazy_source": ("Source.lazy_source(lambda: a)", "-1-2|"),
        "lazy_single": ("Source.lazy_single(lambda: 7)",),
        "from_materializer": ("Source.from_materializer(lambda system, attributes: Source.single(system.name))",),
    },
    "sources-finite": {
        "from_iterable": ("Source.from_iterable('abc')",),
        "range": ("Source.range(3)",),
        "single": ("Source.single(7)",),
        "empty": ("Source.empty()",),
        "failed": ("Source.failed(ValueError('why'))",),
        "repeat": ("Source.repeat('x').take(3)",),
        "cycle": ("Source.cycle([1, 2]).take(5)",),
    },
}
"""By page and operator: the expression, and the marbles of a, b and c."""

CODE: Final[dict[str, str]] = {
    "hubs": """
        from streamactors import Keep, MergeHub, Sink, Source

        (sink, control), result = MergeHub.source_with_draining().to_mat(Sink.to_list(), Keep.both).run()
        for numbers in (range(3), range(10, 12)):
            Source.from_iterable(numbers).run_with(sink).result(timeout=5)
        control.drain_and_complete()
        print(result.result(timeout=5))
    """,
    "pub-sub": """
        from streamactors import ActorSystem, PubSub, Sink, Source, VirtualClock
        from streamactors.actors import Topic

        with ActorSystem("example", clock=VirtualClock()) as system:
            topic = system.create_actor(Topic)
            first_two = PubSub.source(topic).take(2).run_with(Sink.to_list(), system)
            system.clock.settle()                                    # the source has subscribed
            Source.from_iterable("abc").run_with(PubSub.sink(topic), system)
            print(first_two.result(timeout=5))
    """,
    "sinks-batches": """
        from streamactors import Sink, Source

        written = []
        Source.range(5).run_with(Sink.batches(written.append, max=2, within="1s")).result(timeout=5)
        print(written)
    """,
    "sinks-files": """
        import tempfile
        from pathlib import Path

        from streamactors import Sink, Source

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "numbers.txt"
            Source.range(3).map(str).run_with(Sink.to_lines(path)).result(timeout=5)
            print(path.read_text().splitlines())
    """,
    "sources-files": """
        import io

        from streamactors import Sink, Source

        print(Source.from_file_object(io.BytesIO(b"one two")).run_with(Sink.to_list()).result(timeout=5))
    """,
    "sources-fed": """
        from streamactors import Keep, Sink, Source

        queue, result = Source.queue(8).to_mat(Sink.to_list(), Keep.both).run()
        for x in range(3):
            queue.offer(x)
        queue.complete()
        print(result.result(timeout=5))
    """,
}
"""By page: a program that prints."""


async def wait(x: int) -> int:
    """Return x after x frames."""
    await asyncio.sleep(x / 100)
    return x


async def add(total: int, x: int) -> int:
    """Return the sum after two frames."""
    await asyncio.sleep(0.02)
    return total + x


def picture(example: tuple[str, ...], marbles: Marbles) -> str:
    """Run an example and return its inputs and its result, frame under frame."""
    expression, *texts = example
    events = [[_number(event) for event in parse(text, error=marbles.error)] for text in texts]
    names = {name: _source(text, marbles) for name, text in zip("abc", texts, strict=False)}
    with _quiet():
        result = _result(expression, names, marbles)
    lines = [*zip("abc", events, strict=False), ("", result)]
    width = [1] * (1 + max((event.frame for _, line in lines for event in line), default=0))
    shown = [(name, _by_frame(line)) for name, line in lines]
    for _, frames in shown:
        for frame, text in frames.items():
            width[frame] = max(width[frame], len(text))
    return "\n".join(f"{name:<2}{_line(frames, width)}".rstrip() for name, frames in shown)


def program(code: str) -> tuple[str, str]:
    """Run a program and return it with what it has printed."""
    text = textwrap.dedent(code).strip()
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(text, "<example>", "exec"), {"__name__": "example"})  # noqa: S102  # the examples of this file
    return text, printed.getvalue().rstrip()


@contextmanager
def _quiet() -> Iterator[None]:
    """Log nothing: some examples fail on purpose."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _number(event: Marble) -> Marble:
    value = event.value
    return Marble(event.frame, event.kind, int(value) if isinstance(value, str) and value.isdigit() else value)


def _source(text: str, marbles: Marbles) -> Source[Any, Any]:
    return marbles.source(text, {str(digit): digit for digit in range(10)})


def _result(expression: str, names: dict[str, Any], marbles: Marbles) -> list[Marble]:
    import itertools

    import reactivex.operators as rx

    from streamactors.windows import Record

    known = {name: getattr(streamactors, name) for name in streamactors.__all__}
    known |= {"itertools": itertools, "rx": rx, "wait": wait, "add": add, "Record": Record, **names}
    with _in(marbles):
        value = eval(expression, known)  # noqa: S307  # the examples of this file
        if isinstance(value, Source):
            return marbles.record(value, 100)
        return _future(value, marbles)


class _in:
    """Runs without a system use the one of the marbles."""

    def __init__(self, marbles: Marbles) -> None:
        self._marbles = marbles

    def __enter__(self) -> None:
        from streamactors.dsl import source

        self._before = source.default_system
        source.default_system = lambda: self._marbles.system  # type: ignore[attr-defined]
        self._runnable: Any = __import__("streamactors.dsl.runnable", fromlist=["x"])
        self._of_runnable = self._runnable.default_system
        self._runnable.default_system = source.default_system  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        from streamactors.dsl import source

        source.default_system = self._before  # type: ignore[attr-defined]
        self._runnable.default_system = self._of_runnable


def _future(future: StreamFuture[Any], marbles: Marbles) -> list[Marble]:
    marbles.clock.settle()
    for frame in range(100):
        if future.done():
            return [Marble(frame, "element", _Shown(f"future: {future.result(0)!r}"))]
        marbles.clock.advance(marbles.frame_ms)
    raise AssertionError("an example's future has not come within 100 frames")


class _Shown(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _by_frame(events: list[Marble]) -> dict[int, str]:
    signs: dict[int, list[str]] = {}
    for event in events:
        signs.setdefault(event.frame, []).append(event.kind if event.kind != "element" else _text(event.value))
    return {frame: texts[0] if len(texts) == 1 else f"({' '.join(texts)})" for frame, texts in signs.items()}


def _text(value: Any) -> str:
    return value if type(value) is str and value.isalnum() else repr(value)


def _line(frames: dict[int, str], width: list[int]) -> str:
    last = max(frames, default=-1)
    return "".join(frames.get(frame, "").ljust(width[frame], "-" if frame < last else " ") for frame in range(last + 1))
