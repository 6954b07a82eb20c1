"""Every constructor of Sink, from the mix-ins by topic. Type checkers read `all_sinks.pyi` instead of this file."""

from __future__ import annotations

from streamactors.dsl.sinks.batches import BatchSinks
from streamactors.dsl.sinks.files import FileSinks
from streamactors.dsl.sinks.outside import OutsideSinks
from streamactors.dsl.sinks.values import ValueSinks


class SinkConstructors(ValueSinks, OutsideSinks, FileSinks, BatchSinks):
    """The constructors of Sink."""

    __slots__ = ()
