"""What a shell completes beyond names of commands and options: topics, groups and profiles.

A broker that does not answer at once completes nothing, and nothing is printed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from streamactors.kafka.client.admin import Admin

WAIT_MS: Final = 1_000
"""How long a person at a prompt waits for the broker."""


def _asking(names: Callable[[Admin], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        from streamactors.cli.bootstrap import client_settings
        from streamactors.kafka.client.admin import Admin

        before = logging.root.manager.disable
        logging.disable()  # a prompt shows no log of a client
        try:
            with ctx.scope(cleanup=False):
                settings = client_settings(ctx.params["bootstrap"])
            admin = Admin(replace(settings, preflight_timeout_ms=WAIT_MS))
            return [name for name in names(admin) if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001  # a prompt shows no errors
            return []
        finally:
            logging.disable(before)

    return complete


def _topics(admin: Admin) -> list[str]:
    return [topic.name for topic in admin.topics()]


def _groups(admin: Admin) -> list[str]:
    return [group.group for group in admin.groups()]


complete_topics: Final = _asking(_topics)
complete_groups: Final = _asking(_groups)
topic_argument: Final[Callable[[Any], Any]] = click.argument("topic", shell_complete=complete_topics)
