"""librdkafka's own log lines: kept from the terminal, and read for what is said nowhere else.

Owner: the process; all clients write to one logger. Whoever wants the lines gives "streamactors.kafka.librdkafka" a handler."""

from __future__ import annotations

import logging
import re
from typing import Final

QUIET: Final = logging.getLogger("streamactors.kafka.librdkafka")
QUIET.propagate = False
QUIET.addHandler(logging.NullHandler())
_RESET: Final = re.compile(r"(\S+) \[(\d+)\]: offset reset \(at offset (\d+).*?\) to offset (\w+)")


class _Resets(logging.Handler):
    """Records that were skipped, or come again, because an offset is not there: librdkafka says so in its log only."""

    def emit(self, record: logging.LogRecord) -> None:
        found = _RESET.search(record.getMessage())
        if found is not None:
            topic, partition, offset, where = found.groups()
            logging.getLogger("streamactors.kafka").warning(
                "%s-%s: there is no offset %s (any more): what it points at was deleted, or the topic was created anew; "
                "reading on from the %s, as auto_offset_reset says",
                topic,
                partition,
                offset,
                where.lower(),
            )


QUIET.addHandler(_Resets(logging.WARNING))
