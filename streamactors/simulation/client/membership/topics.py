"""The topics that a subscription means: names, and regular expressions that begin with ^.

Owner: a member. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def resolved(subscription: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the topics that exist, in order. Internal topics only match their own names."""
    patterns = [re.compile(each) for each in subscription if each.startswith("^")]
    names = {each for each in subscription if not each.startswith("^")}
    return sorted(
        topic
        for topic in known
        if topic in names or (not topic.startswith("__") and any(pattern.match(topic) for pattern in patterns))
    )
