"""Raises the number of files that the process of a broker may open, as the JVM does for Apache Kafka.

Owner: the process of a broker, before the broker is made. A broker inside another program does not change the limit: `select` of that program
cannot use greater descriptors."""

from __future__ import annotations

import resource
from typing import Final

MOST: Final = 1 << 20
"""The default of fs.nr_open in Linux: what the system allows where it names no limit."""


def raise_descriptor_limit() -> None:
    """Raise the soft limit to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        pass  # the system does not allow it; the broker keeps descriptors for its logs within the limit that there is
