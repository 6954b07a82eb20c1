"""Ten thousand materializations of each operator over bytes leave no thread, descriptor or memory behind."""

from __future__ import annotations

import gc
import gzip
import os
import threading
import zlib
from pathlib import Path
from typing import Any

import cramjam
import pytest
import reactivex.operators as rx

from streamactors import Flow, Keep, Sink, Source
from tests.own_process import own_process

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
CASES: dict[str, tuple[Any, list[Any]]] = {
    "frames_by_delimiter": (Flow.identity().frames_by_delimiter(b"\n", 100), [b"a\nb", b"\n"]),
    "frames_by_length": (Flow.identity().frames_by_length(1, 100), [b"\x01a\x02", b"bc"]),
    "with_length_field": (Flow.identity().with_length_field(4), [b"a"]),
    "frames_of_json": (Flow.identity().frames_of_json(100), [b'[{"a":', b"1}]"]),
    "lines": (Flow.identity().lines(), [b"a\nb"]),
    "decode": (Flow.identity().decode(), ["é".encode()]),
    "gzip": (Flow.identity().gzip(), [b"abc"]),
    "gunzip": (Flow.identity().gunzip(), [gzip.compress(b"abc")]),
    "deflate": (Flow.identity().deflate(), [b"abc"]),
    "inflate": (Flow.identity().inflate(), [zlib.compress(b"abc")]),
    "zstd": (Flow.identity().zstd(), [b"abc"]),
    "unzstd": (Flow.identity().unzstd(), [bytes(cramjam.zstd.compress(b"abc"))]),
    "parse_csv": (Flow.identity().parse_csv(), [b"a,b\n1,", b"2\n"]),
    "format_csv": (Flow.identity().format_csv(), ROWS),
    "parse_json_lines": (Flow.identity().parse_json_lines(), [b'{"a":1}\n']),
    "format_json_lines": (Flow.identity().format_json_lines(), ROWS),
    "parse_server_sent_events": (Flow.identity().parse_server_sent_events(), [b"data: a\n\n"]),
    "format_server_sent_events": (Flow.identity().format_server_sent_events(), ["a"]),
    "to_arrow": (Flow.identity().to_arrow(2).rows(), ROWS),
    "rx_buffer": (Flow.rx(rx.buffer_with_count(2)), [1, 2, 3]),
    "rx_flat_map": (Flow.rx(rx.flat_map(lambda x: [x])), [1, 2, 3]),
}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


@own_process
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("name", CASES)
def test_ten_thousand_materializations_leave_nothing(name):
    flow, elements = CASES[name]
    whole = Source.from_iterable(elements).via(flow).to_mat(Sink.ignore(), Keep.right)
    cancelled = Source.from_iterable(elements).via(flow).take(1).to_mat(Sink.ignore(), Keep.right)

    def run(n: int) -> None:
        for _ in range(n // 2):
            whole.run().result(10)
            cancelled.run().result(10)

    run(1_000)
    gc.collect()
    memory, descriptors, threads = resident_bytes(), len(os.listdir("/proc/self/fd")), threading.active_count()
    run(10_000)
    gc.collect()
    assert resident_bytes() - memory < 3_000_000, "less than 300 bytes a run"
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert threading.active_count() <= threads + 20, "the pool grows with the load, not with the number of runs"
