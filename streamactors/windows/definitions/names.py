"""The names of steps, stores and groups, which become parts of the names of topics: `<group>-<store>-changelog`, `<group>-<name>-repartition`.

Rules of topic names: Apache Kafka's Topic.validate. Kafka Streams applies them to the names of all steps, too."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from streamactors.errors import BuildError

_OTHER: Final = re.compile(r"[^a-zA-Z0-9._-]+")
_LONGEST: Final = 249
_ALLOWED: Final = "which takes the letters a to z and A to Z, digits, '.', '_' and '-' only"


def checked_name(where: str, name: object) -> str:
    """Return the name of a step or a store. Raises BuildError for a name that cannot be part of a topic's name."""
    if not isinstance(name, str) or not name:
        raise BuildError(f"{where}: name is {name!r}; give a string that is not empty")
    if found := _OTHER.search(name):
        raise BuildError(
            f"{where}: the name {name!r} has {found[0]!r}, and it becomes part of the name of a topic, {_ALLOWED}; "
            f"name={_plain(name)!r}, for example"
        )
    return name


def checked_group(where: str, group: str | None) -> str:
    """Return a group whose name begins those of topics. Raises BuildError if it cannot."""
    group = group or ""
    if found := _OTHER.search(group):
        raise BuildError(
            f"{where}: the group {group!r} has {found[0]!r}, and the names of its changelog and repartition topics begin with it, {_ALLOWED}; "
            f"group_id={_plain(group)!r}, for example"
        )
    return group


def topic_of(where: str, group: str, name: str, suffix: str) -> str:
    """Return the name of a topic of a group's step. Raises BuildError if it is not a valid topic name."""
    return checked_topic(where, group, f"{name}-{suffix}")


def changelog_topic(application: str, store: str) -> str:
    """Return the name of a store's changelog topic, as in Kafka Streams."""
    return topic_of(f"the store {store!r}", application, store, "changelog")


def checked_topic(where: str, group: str, rest: str) -> str:
    """Return the name of a topic that begins with that of a group. Raises BuildError if it is not a valid topic name."""
    topic = f"{checked_group(where, group)}-{rest}"
    if len(topic) > _LONGEST:
        raise BuildError(
            f"{where}: the topic {topic!r} would have a name of {len(topic)} characters, {_LONGEST} are allowed; give the step or the group a shorter name"
        )
    return topic


def _plain(name: str) -> str:
    """Return a legal name that reads like `name`."""
    letters = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode()
    return _OTHER.sub("-", letters).strip("-") or "counts"
