"""Updates: what travels between the table operators of a task, one tuple per change of a table's entry.

Owner: nobody; made by aggregations, read by filter, map_values, suppress and to_stream. A plain tuple, because a
busy task makes millions of them."""

from __future__ import annotations

from typing import Any, TypeAlias

from streamactors.windows.record import RecordContext

Update: TypeAlias = tuple[
    "str | bytes",  # ident: the key's stand-in
    Any,  # key
    "int | None",  # start of the window, None for a table without windows
    "int | None",  # end of the window
    Any,  # new value, None: deleted
    Any,  # old value
    int,  # timestamp
    "RecordContext | None",  # of the last contributing row
    bool,  # final: it cannot change any more
]
