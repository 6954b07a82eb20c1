"""Examples of the operators of sources and flows.

By page and operator; see docs/pictures.py for the form of an example."""

from __future__ import annotations

from typing import Final

PICTURES: Final[dict[str, dict[str, tuple[str, ...] | str]]] = {
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
        "map_with_resource": (
            "a.map_with_resource(list, lambda kept, x: kept.append(x) or len(kept), lambda kept: kept)",
            "-5-7|",
        ),
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
        "detach": ("a.detach().throttle(1, 50, burst=1)", "1-2-3|"),
        "conflate_with_seed": (
            "a.conflate_with_seed(lambda x: [x], lambda xs, x: [*xs, x]).max_chunk(1).throttle(1, 50, burst=1).max_chunk(1)",
            "1-2-3-4|",
        ),
        "batch_weighted": (
            "a.batch_weighted(3, lambda x: x, lambda x: [x], lambda xs, x: [*xs, x]).throttle(1, 50, burst=1)",
            "1112|",
        ),
        "expand": ("a.zip(b.expand(itertools.count))", "-1-2-3|", "5-----7|"),
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
        "backpressure_timeout": ("a.backpressure_timeout('30ms').max_chunk(1).map_async(1, wait)", "-9-1-2|"),
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
        "also_to": ("a.also_to(Sink.foreach(seen.append))", "-1-2-3|"),
        "divert_to": ("a.divert_to(Sink.foreach(seen.append), when=lambda x: x == 2)", "-1-2-3|"),
        "wire_tap": ("a.wire_tap(seen.append)", "-1-2-3|"),
        "merge_mat": (
            "a.merge_mat(b.watch_termination(), Keep.right).to(Sink.foreach(seen.append)).run()",
            "-1---2|",
            "--x|",
        ),
        "concat_all_lazy": ("a.concat_all_lazy(b, c)", "-1-2|", "-x-y|", "-z|"),
        "concat_mat": (
            "a.concat_mat(b.watch_termination(), Keep.right).to(Sink.foreach(seen.append)).run()",
            "-1-2|",
            "-x-y|",
        ),
        "prepend_lazy": ("a.prepend_lazy(b)", "-1-2|", "-x-y|"),
        "zip_mat": (
            "a.zip_mat(b.watch_termination(), Keep.right).to(Sink.foreach(seen.append)).run()",
            "-1---2|",
            "--x---y|",
        ),
        "also_to_all": ("a.also_to_all(Sink.foreach(seen.append), Sink.ignore())", "-1-2-3|"),
        "also_to_mat": ("a.also_to_mat(Sink.count(), Keep.right).to(Sink.foreach(seen.append)).run()", "-1-2-3|"),
        "divert_to_mat": (
            "a.divert_to_mat(Sink.to_list(), lambda x: x == 2, Keep.right).to(Sink.foreach(seen.append)).run()",
            "-1-2-3|",
        ),
        "wire_tap_mat": ("a.wire_tap_mat(Sink.count(), Keep.right).to(Sink.foreach(seen.append)).run()", "-1-2-3|"),
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
        "map_parallel": """
            from streamactors import Sink, Source

            def square(x):
                return x * x

            print(Source.range(4).map_parallel(square, processes=2).run_with(Sink.to_list()).result(timeout=60))
        """,
        "ask": ("a.ask(tens)", "-1-2-3|"),
        "ask_with_status": ("a.ask_with_status(checked)", "-1-2-0-3|"),
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
        "do_on_first": ("a.do_on_first(seen.append)", "-1-2-3|"),
        "monitor": ("a.monitor()", "-1-2-3|"),
        "meter": ("a.meter('1s')", "-1-2-3|"),
        "watch_termination": ("a.watch_termination()", "-1-2-3|"),
        "log": ("a.log('numbers')", "-1-2-3|"),
        "watch": (
            "b.run_with(Sink.on_complete(lambda error: system.tell(topic, ActorExitRequest())))\na.watch(topic)",
            "-1-2-3|",
            "----|",
        ),
        "do_on_cancel": ("a.do_on_cancel(lambda cause, was_normal: seen.append(was_normal)).take(2)", "-1-2-3|"),
    },
    "operators-compose": {
        "via": ("a.via(Flow.map(lambda x: x + 1))", "-1-2-3|"),
        "async_boundary": ("a.async_boundary().map(lambda x: x + 1)", "-1-2-3|"),
        "via_mat": (
            "a.via_mat(Flow.map(lambda x: x * 10).watch_termination(), Keep.right).to(Sink.ignore()).run()",
            "-1-2|",
        ),
        "map_materialized_value": ("a.map_materialized_value(lambda value: seen.append('run'))", "-1-2|"),
    },
    "operators-rx": {"rx": ("a.via(Flow.rx(rx.pairwise()))", "-1--2--3|")},
    "operators-bytes": {
        "frames_by_delimiter": (
            "a.map(lambda x: f'{x};'.encode()).frames_by_delimiter(b';', max_length=9)",
            "-1----2|",
        ),
        "lines": ("a.map(lambda x: b'x' * x + b'\\n').lines()", "-1--2--3|"),
        "decode": ("a.map(lambda x: str(x).encode()).decode()", "-1-2-3|"),
        "frames_by_length": ("a.map(lambda x: bytes([x])).frames_by_length(1, max_length=9)", "-1-7-2-8-9|"),
        "with_length_field": ("a.map(str.encode).with_length_field(1)", "-x--y|"),
        "frames_of_json": (
            "a.map_concat(lambda x: [b'{\"n\":', b'%d}' % x]).frames_of_json(max_length=99)",
            "-1---2|",
        ),
        "gzip": ("a.map(str.encode).gzip().take(1).map(lambda data: data[:2].hex())", "-x-y|"),
        "gunzip": ("a.map(str.encode).gzip().gunzip()", "-x-y|"),
        "deflate": ("a.map(str.encode).deflate().inflate()", "-x-y|"),
        "inflate": ("a.map(str.encode).deflate(raw=True).inflate(raw=True)", "-x-y|"),
        "zstd": ("a.map(str.encode).zstd().unzstd()", "-x-y|"),
        "unzstd": ("a.map(str.encode).zstd(flush=False).unzstd()", "-x-y|"),
        "through_process": """
            from streamactors import Sink, Source

            words = Source.from_iterable([b"b\\n", b"a\\n"]).through_process("sort")
            print(words.run_with(Sink.to_list()).result(timeout=10))
        """,
    },
    "operators-rows": {
        "parse_json_lines": ("a.map(lambda x: b'[%d]\\n' % x).parse_json_lines()", "-1---2|"),
        "parse_csv": ("a.map(lambda x: b'%d,x\\n' % x).parse_csv(header=False, fields=['n', 'm'])", "-1---2|"),
        "format_csv": ("a.map(lambda x: {'n': x, 'm': 'x'}).format_csv()", "-1---2|"),
        "format_json_lines": ("a.map(lambda x: {'n': x}).format_json_lines()", "-1---2|"),
        "parse_server_sent_events": (
            "a.map(lambda x: b'data: %d\\n\\n' % x).parse_server_sent_events().map(lambda event: event.data)",
            "-1---2|",
        ),
        "format_server_sent_events": ("a.format_server_sent_events()", "-x---y|"),
        "to_arrow": ("a.map(lambda x: {'n': x}).to_arrow(2).map(lambda table: table['n'].to_pylist())", "-1---2-3|"),
        "to_pandas": ("a.map(lambda x: {'n': x}).to_pandas(2).map(lambda frame: frame['n'].tolist())", "-1---2-3|"),
        "to_polars": ("a.map(lambda x: {'n': x}).to_polars(2).map(lambda frame: frame['n'].to_list())", "-1---2-3|"),
        "rows": ("a.map(lambda x: {'n': x}).to_arrow(2).rows()", "-1---2-3|"),
    },
    "operators-windows": {
        "group_by_key": (
            "a.map(lambda x: Record('k', x, timestamp=x)).group_by_key().count().to_stream().map(lambda r: r.value)",
            "-1-2-3|",
        ),
        "key_by": (
            "rows = a.map(lambda x: Record('k', x, timestamp=x))\n"
            "rows.key_by(lambda r: r.value % 2).count().to_stream().map(lambda r: (r.key, r.value))",
            "-1-2-3|",
        ),
        "to_table": (
            "rows = a.map(lambda x: Record(x % 2, x, timestamp=x))\n"
            "rows.to_table().to_stream().map(lambda r: (r.key, r.value))",
            "-1-2-3|",
        ),
    },
    "operators-context": {"with_context": ("a.with_context(lambda x: x * 10).as_source()", "-1----2|")},
}
