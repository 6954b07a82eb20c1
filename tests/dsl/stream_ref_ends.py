"""Both ends of a stream between processes, for tests."""

from __future__ import annotations

from typing import Any

from streamactors import (
    ActorSystem,
    Keep,
    Sink,
    SinkRef,
    SourceRef,
    StreamRefs,
)


def sent(source: Any, **options: Any) -> SourceRef[Any]:
    return source.run_with(StreamRefs.source_ref(**options)).result(10)


def received(system: ActorSystem | None = None, **options: Any) -> tuple[SinkRef[Any], Any]:
    ref, got = StreamRefs.sink_ref(**options).to_mat(Sink.to_list(), Keep.both).run(system)
    return ref.result(10), got
