"""Examples of sources and sinks.

By page and operator; see docs/pictures.py for the form of an example."""

from __future__ import annotations

from typing import Final

PICTURES: Final[dict[str, dict[str, tuple[str, ...] | str]]] = {
    "sinks-values": {
        "foreach": ("a.run_with(Sink.foreach(seen.append))", "-1-2-3|"),
        "foreach_async": ("a.run_with(Sink.foreach_async(2, wait))", "-1-2-3|"),
        "ignore": ("a.run_with(Sink.ignore())", "-1-2-3|"),
        "to_list": ("a.run_with(Sink.to_list())", "-1-2-3|"),
        "head": ("a.run_with(Sink.head())", "-1-2-3|"),
        "head_option": ("a.run_with(Sink.head_option())", "---|"),
        "last": ("a.run_with(Sink.last())", "-1-2-3|"),
        "last_option": ("a.run_with(Sink.last_option())", "---|"),
        "fold": ("a.run_with(Sink.fold(0, lambda total, x: total + x))", "-1-2-3|"),
        "fold_async": ("a.run_with(Sink.fold_async(0, add))", "-1-2-3|"),
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
        "to_queue": ("queue = a.run_with(Sink.to_queue())\nqueue.pull()", "-1-2-3|"),
        "actor_ref": ("a.run_with(Sink.actor_ref(listener))", "-1-2-3|"),
        "actor_ref_with_backpressure": (
            "a.run_with(Sink.actor_ref_with_backpressure(listener, ack='taken'))",
            "-1-2-3|",
        ),
        "cancelled": ("a.run_with(Sink.cancelled())", "-1-2-3|"),
        "never": ("a.run_with(Sink.never())", "---|"),
        "lazy_sink": ("a.run_with(Sink.lazy_sink(lambda: Sink.count()))", "-1-2-3|"),
        "lazy_future_sink": (
            "async def later():\n    await wait(2)\n    return Sink.foreach(seen.append)\n\na.run_with(Sink.lazy_future_sink(later))",
            "-1-2-3|",
        ),
        "future_sink": (
            "sink = b.map(lambda x: Sink.foreach(seen.append)).run_with(Sink.head())\na.run_with(Sink.future_sink(sink))",
            "-1-2-3|",
            "----x|",
        ),
        "from_materializer": ("a.run_with(Sink.from_materializer(lambda system, attributes: Sink.count()))", "-1-2-3|"),
        "combine": ("a.to(Sink.combine(Sink.foreach(seen.append), Sink.ignore())).run()", "-1-2-3|"),
    },
    "sources-computed": {
        "unfold": ("Source.unfold(3, lambda n: (n - 1, n) if n else None)",),
        "iterate": ("Source.iterate(1, lambda x: x * 2, while_=lambda x: x < 9)",),
        "tick": ("Source.tick(20, 30, 't').take(3)",),
        "future": ("Source.future(a.run_with(Sink.count()))", "-1-2|"),
        "lazy_source": ("Source.lazy_source(lambda: a)", "-1-2|"),
        "lazy_single": ("Source.lazy_single(lambda: 7)",),
        "from_materializer": ("Source.from_materializer(lambda system, attributes: Source.single(system.name))",),
        "unfold_async": (
            "async def down(n):\n    await wait(2)\n    return (n - 1, n) if n else None\n\nSource.unfold_async(3, down)",
        ),
        "unfold_resource": (
            "Source.unfold_resource(lambda: iter('abc'), lambda letters: next(letters, None), lambda letters: None)",
        ),
        "unfold_resource_async": (
            "async def begin():\n    return [3, 2, 1]\n\n"
            "async def read(left):\n    return await wait(left.pop()) if left else None\n\n"
            "async def end(left):\n    seen.append('end')\n\n"
            "Source.unfold_resource_async(begin, read, end)",
        ),
        "future_source": ("Source.future_source(a.map(lambda x: Source.range(x)).run_with(Sink.head()))", "--3|"),
        "lazy_future": ("Source.lazy_future(lambda: wait(3))",),
        "lazy_future_source": (
            "Source.lazy_future_source(lambda: a.map(lambda x: Source.range(x)).run_with(Sink.head()))",
            "--3|",
        ),
        "maybe": (
            "handle, element = Source.maybe().pre_materialize(system)\na.run_with(Sink.foreach(handle.succeed))\nelement",
            "--7|",
        ),
    },
    "sources-finite": {
        "from_iterable": ("Source.from_iterable('abc')",),
        "range": ("Source.range(3)",),
        "single": ("Source.single(7)",),
        "empty": ("Source.empty()",),
        "failed": ("Source.failed(ValueError('why'))",),
        "repeat": ("Source.repeat('x').take(3)",),
        "cycle": ("Source.cycle([1, 2]).take(5)",),
        "from_async_iterable": (
            "async def numbers():\n    for n in (1, 2, 3):\n        yield await wait(n)\n\nSource.from_async_iterable(numbers())",
        ),
        "from_lines": ("path.write_text('x\\ny\\n')\nSource.from_lines(path)",),
        "never": ("a.concat(Source.never())", "-1-2|"),
    },
    "sinks-batches": {
        "batches": ("a.run_with(Sink.batches(seen.append, max=2, within=30))", "-1-2---3|"),
        "to_sql": (
            "sqlite3.connect(path).execute('create table t (n integer)')\n"
            "insert = 'insert into t values (?)'\n"
            "a.map(lambda x: (x,)).run_with(Sink.to_sql(lambda: sqlite3.connect(path), insert, max=2, within=30))",
            "-1-2-3|",
        ),
        "to_sql_table": (
            "sqlite3.connect(path).execute('create table t (n integer primary key)')\n"
            "rows = a.map(lambda x: {'n': x})\n"
            "rows.run_with(Sink.to_sql_table(lambda: sqlite3.connect(path), 't', ['n'], 'n', max=2, within=30))",
            "-1-2-3|",
        ),
        "to_objects": (
            "sink = Sink.to_objects(lambda xs: f'memory://part-{xs[0]}', bytes, max=2, within=30)\na.run_with(sink)",
            "-1-2-3|",
        ),
    },
    "sinks-files": {
        "to_file": ("a.map(str.encode).to(Sink.to_file(path)).run()", "-x-y-z|"),
        "to_lines": ("a.to(Sink.to_lines(path)).run()", "-x-y-z|"),
        "to_csv": ("a.map(lambda x: {'n': x}).to(Sink.to_csv(path)).run()", "-1-2-3|"),
        "to_json_lines": ("a.map(lambda x: {'n': x}).to(Sink.to_json_lines(path)).run()", "-1-2-3|"),
        "to_rotating_files": (
            "files = lambda number: path.with_suffix(f'.{number}')\n"
            "sink = Sink.to_rotating_files(files, max_bytes=2, on_closed=lambda result: seen.append(result.count))\n"
            "a.map(str.encode).to(sink).run()",
            "-x-y-z|",
        ),
        "to_file_object": ("a.map(str.encode).to(Sink.to_file_object(seen)).run()", "-x-y-z|"),
        "to_stdout": """
            import subprocess
            import sys

            program = (
                "from streamactors import Sink, Source; "
                "Source.from_iterable([b'one ', b'two']).run_with(Sink.to_stdout()).result(5)"
            )
            print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60).stdout)
        """,
        "to_reader": """
            from streamactors import Sink, Source

            with Source.from_iterable([b"one ", b"two"]).run_with(Sink.to_reader()) as reader:
                print(reader.read())
        """,
    },
    "sources-fed": {
        "queue": (
            "queue, elements = Source.queue(8).pre_materialize(system)\n"
            "a.run_with(Sink.foreach(queue.offer)).add_done_callback(lambda done: queue.complete())\n"
            "elements",
            "-1-2-3|",
        ),
        "queue_with_backpressure": (
            "queue, elements = Source.queue_with_backpressure(8).pre_materialize(system)\n"
            "a.run_with(Sink.foreach_async(1, queue.offer)).add_done_callback(lambda done: queue.complete())\n"
            "elements",
            "-1-2-3|",
        ),
        "actor_ref": (
            "actor, elements = Source.actor_ref(8).pre_materialize(system)\na.run_with(Sink.actor_ref(actor))\nelements",
            "-1-2-3|",
        ),
        "actor_ref_with_backpressure": (
            "actor, elements = Source.actor_ref_with_backpressure(ack='taken').pre_materialize(system)\n"
            "a.run_with(Sink.actor_ref_with_backpressure(actor, ack='taken'))\n"
            "elements",
            "-1-2-3|",
        ),
        "server_sent_events": """
            import httpx

            from streamactors import Sink, Source

            def answer(request):
                events = "data: one\\n\\ndata: two\\n\\n"
                return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=events)

            def client():
                return httpx.AsyncClient(transport=httpx.MockTransport(answer))

            events = Source.server_sent_events("http://localhost/events", reconnect=None, client=client)
            print(events.map(lambda event: event.data).run_with(Sink.to_list()).result(timeout=5))
        """,
        "from_observable": ("Source.from_observable(reactivex.of(1, 2, 3))",),
    },
    "sources-files": {
        "from_file": ("path.write_bytes(b'abcdef')\nSource.from_file(path, block=4)",),
        "from_csv": ("path.write_text('a,b\\n1,2\\n')\nSource.from_csv(path)",),
        "from_json_lines": ("path.write_text('[1]\\n[2]\\n')\nSource.from_json_lines(path)",),
        "from_file_object": ("Source.from_file_object(io.BytesIO(b'abcdef'), block=4)",),
        "tail_file": ("path.write_bytes(b'x\\ny\\n')\nSource.tail_file(path).lines().take(2)",),
        "from_stdin": """
            import subprocess
            import sys

            program = (
                "from streamactors import Sink, Source; "
                "print(Source.from_stdin().lines().run_with(Sink.to_list()).result(5))"
            )
            ran = subprocess.run([sys.executable, "-c", program], input="one\\ntwo\\n", capture_output=True, text=True, timeout=60)
            print(ran.stdout)
        """,
        "from_writer": (
            "writer, written = Source.from_writer().pre_materialize(system)\n"
            "a.run_with(Sink.foreach(lambda x: writer.write(x.encode()))).add_done_callback(lambda done: writer.close())\n"
            "written",
            "-x-y|",
        ),
    },
}
