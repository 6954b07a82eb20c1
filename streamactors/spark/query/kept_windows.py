"""The windows whose states lie in a checkpoint, as its file `streamactors-graph.json` keeps them, and their comparison with those of a run. Pure.

A window of another kind or length would find states that mean something else. The grace period may change. A value that one side does not
have is not compared: an older version did not keep it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

Kept = Mapping[str, Any]
_MAY_CHANGE: Final = frozenset(("grace_ms",))


def lengths(nodes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return for each store of a topology, given its node, what its windows are; nothing for a store without windows."""
    found = {}
    for store, node in nodes.items():
        windows = getattr(getattr(node, "windowing", None), "windows", None)
        if is_dataclass(windows):
            values = {field.name: getattr(windows, field.name) for field in fields(windows)}
            kept: dict[str, Any] = {"kind": type(windows).__name__}
            for name, value in values.items():
                if name not in _MAY_CHANGE and value is not None:
                    kept[name] = value if isinstance(value, (int, str)) else str(value)
            found[store] = kept
    return found


def agree(kept: Kept, read: Kept) -> bool:
    """Return whether a run with the windows `read` may continue with the states of the windows `kept`."""
    if any(kept.get(name) != read.get(name) for name in ("version", "stores", "application")):
        return False
    mine, theirs = kept.get("windows", {}), read.get("windows", {})
    return all(
        mine[store][name] == theirs[store][name]
        for store in mine.keys() & theirs.keys()
        for name in mine[store].keys() & theirs[store].keys()
    )


def in_words(kept: Kept | None) -> str:
    """Return what the windows are, for an error."""
    if kept is None:
        return "no windows"
    known = kept.get("windows", {})
    named = [
        f"{store} ({', '.join(f'{name} {value}' for name, value in known[store].items())})" if store in known else store
        for store in kept["stores"]
    ]
    return f"the windows {', '.join(named)} of {kept['application']!r}"
