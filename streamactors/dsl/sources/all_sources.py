"""Every constructor of Source, from the mix-ins by topic. Type checkers read `all_sources.pyi` instead of this file."""

from __future__ import annotations

from streamactors.dsl.sources.computed import ComputedSources
from streamactors.dsl.sources.fed import FedSources
from streamactors.dsl.sources.files import FileSources
from streamactors.dsl.sources.finite import FiniteSources


class SourceConstructors(FiniteSources, ComputedSources, FedSources, FileSources):
    """The constructors of Source."""

    __slots__ = ()
