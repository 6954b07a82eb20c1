"""Both ends of a stream between processes, for tests."""

from __future__ import annotations

from typing import Any

from streamactors import (
    Keep,
    Sink,
    SinkRef,
    SourceRef,
    StreamRefs,
)


def sent(source: Any, **options: Any) -> SourceRef[Any]:
    return source.run_with(StreamRefs.source_ref(**options)).result(10)


def received(**options: Any) -> tuple[SinkRef[Any], Any]:
    ref, got = StreamRefs.sink_ref(**options).to_mat(Sink.to_list(), Keep.both).run()
    return ref.result(10), got
