"""The sources of a graph as a checkpoint keeps them, and the comparison of what it keeps with what a run reads. Pure.

A source is kept by its label and by its identity: names and values that tell it from others with the same label, for example the cluster id
and the topic ids of a Kafka source. A value that is not known on one of the two sides is not compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class SourceIdentity:
    """A source: its label, and its identity. The value None stands for one that is not known."""

    label: str
    identity: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def unknown(self) -> list[str]:
        """The names whose values are not known."""
        return sorted(name for name, value in self.identity.items() if value is None)

    def as_json(self) -> dict[str, Any]:
        """Return what the checkpoint's file holds."""
        return {"label": self.label, "identity": dict(self.identity)}

    @staticmethod
    def of_json(kept: Any) -> SourceIdentity:
        """End `as_json`. Version 1 kept the label alone. Raises KeyError, TypeError or ValueError for anything else."""
        if isinstance(kept, str):
            return SourceIdentity(kept)
        return SourceIdentity(str(kept["label"]), dict(kept["identity"]))


def difference(kept: Sequence[SourceIdentity], read: Sequence[SourceIdentity]) -> tuple[str, str] | None:
    """Return what the checkpoint was written for and what this run reads, in words; None when the two agree."""
    if [source.label for source in kept] != [source.label for source in read]:
        return _labels(kept), _labels(read)
    for old, new in zip(kept, read, strict=True):
        for name in sorted(old.identity.keys() & new.identity.keys()):
            before, now = old.identity[name], new.identity[name]
            if before is not None and now is not None and before != now:
                return f"{old.label} with {name} {before}", f"{new.label} with {name} {now}"
    return None


def merged(kept: SourceIdentity, read: SourceIdentity) -> SourceIdentity:
    """Return what to keep from now on: what this run knows, and what only the checkpoint knows."""
    known = {name: value for name, value in read.identity.items() if value is not None}
    return SourceIdentity(read.label, {**read.identity, **kept.identity, **known})


def _labels(sources: Sequence[SourceIdentity]) -> str:
    return " and ".join(source.label for source in sources) or "nothing"
