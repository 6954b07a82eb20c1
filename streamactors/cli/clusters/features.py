"""`streamactors features`: list, raise and lower the features of a cluster.

A feature that this cluster's nodes do not support at the level of a release gets their highest level. The voters of the quorum are named in its log
(kraft.version) by a request of its own, because a controller may have a reason against it that concerns no other feature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from streamactors import __version__
from streamactors.cli.bootstrap import bootstrap_option, client_settings
from streamactors.cli.tables import json_option, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from streamactors.kafka.client.cluster_requests import ClusterRequests

_API_VERSIONS, _UPDATE = 18, 57  # keys of requests
_UPGRADE, _SAFE, _UNSAFE = 1, 2, 3
_KRAFT: Final = "kraft.version"
_TIMEOUT_MS: Final = 60_000


@click.group("features")
def command() -> None:
    """List, raise and lower features: which records the nodes of a cluster write, and which requests they take.

    \b
    Examples:
      streamactors features list
      streamactors features upgrade --release-version 4.4
    """


@command.command("list")
@bootstrap_option
@json_option
def list_features(bootstrap: str, as_json: bool) -> None:
    """List the features with their levels, and the levels that the asked broker supports.

    \b
    Example:
      streamactors features list --json
    """
    with _wire(bootstrap) as wire:
        told = _told(wire)
    now = {each.name: each.max_version_level for each in told.finalized_features}
    columns = ("feature", "level", "lowest", "highest")
    rows = [(each.name, now.get(each.name, 0), each.min_version, each.max_version) for each in told.supported_features]
    rows.sort()
    if as_json:
        print_json(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        print_table(columns, [tuple(map(str, row)) for row in rows])


def _change_options(fn: Callable[..., Any]) -> Callable[..., Any]:
    fn = click.option("--dry-run", is_flag=True, help="Ask whether it is possible, and change nothing.")(fn)
    fn = click.option("--feature", "features", multiple=True, metavar="NAME=LEVEL")(fn)
    fn = click.option(
        "--release-version", "release", metavar="RELEASE", help="All features as in a release, such as 4.4."
    )(fn)
    return bootstrap_option(fn)


@command.command("upgrade")
@_change_options
def upgrade(bootstrap: str, release: str | None, features: tuple[str, ...], dry_run: bool) -> None:
    """Raise features, when all nodes of the cluster run the new version. Some levels cannot be lowered again.

    \b
    Examples:
      streamactors features upgrade --release-version 4.4
      streamactors features upgrade --feature transaction.version=2
    """
    with _wire(bootstrap) as wire:
        _change(wire, _wanted(wire, release, features), _UPGRADE, dry_run=dry_run)


@command.command("downgrade")
@_change_options
@click.option("--unsafe", is_flag=True, help="Also where metadata gets lost.")
def downgrade(bootstrap: str, release: str | None, features: tuple[str, ...], dry_run: bool, unsafe: bool) -> None:
    """Lower features, before nodes of an older version join the cluster.

    \b
    Example:
      streamactors features downgrade --feature streams.version=0
    """
    with _wire(bootstrap) as wire:
        levels = _wanted(wire, release, features)
        if release is not None:
            levels = {**dict.fromkeys(_levels_now(wire), 0), **levels}
        _change(wire, levels, _UNSAFE if unsafe else _SAFE, dry_run=dry_run)


def _wanted(wire: ClusterRequests, release: str | None, features: tuple[str, ...]) -> dict[str, int]:
    """Return the levels that are asked for; those of a release are at most those that the broker supports."""
    from streamactors.broker.controller.rules.release_levels import level_of_release, levels_of
    from streamactors.cli.clusters.storage import level

    if (release is None) == (not features):
        raise click.UsageError("give --release-version RELEASE, or --feature NAME=LEVEL once or several times")
    if release is None:
        return dict(map(level, features))
    try:
        levels = levels_of(level_of_release(release))
    except ValueError as error:
        raise click.UsageError(f"--release-version: {error}") from error
    most = {each.name: each.max_version for each in _told(wire).supported_features}
    for name in levels.keys() & most.keys():
        if levels[name] > most[name]:
            click.echo(f"{name}: {release} has {levels[name]}, the cluster supports {most[name]}", err=True)
            levels[name] = most[name]
    return levels


def _change(wire: ClusterRequests, levels: Mapping[str, int], kind: int, *, dry_run: bool) -> None:
    """Have the controller change the levels that differ. kraft.version is asked for on its own, after the others."""
    now = _levels_now(wire)
    others = {name: level for name, level in levels.items() if name != _KRAFT}
    last = {name: level for name, level in levels.items() if name == _KRAFT}
    for part in (others, last):
        changed = {name: level for name, level in part.items() if now.get(name, 0) != level}
        for name in part.keys() - changed.keys():
            click.echo(f"{name}: {part[name]} already")
        if not changed:
            continue
        updates = [
            {"feature": name, "max_version_level": level, "upgrade_type": kind} for name, level in changed.items()
        ]
        body = {"timeout_ms": _TIMEOUT_MS, "feature_updates": updates, "validate_only": dry_run}
        answer = wire.call(wire.brokers()[0], _UPDATE, 2, body)
        if answer.error_code:
            raise click.ClickException(answer.error_message or f"error {answer.error_code}")
        for name, level in changed.items():
            click.echo(f"{name}: {'can be changed' if dry_run else 'changed'} from {now.get(name, 0)} to {level}")


def _levels_now(wire: ClusterRequests) -> dict[str, int]:
    return {each.name: each.max_version_level for each in _told(wire).finalized_features}


def _told(wire: ClusterRequests) -> Any:
    """Return what a broker says of its features."""
    body = {"client_software_name": "streamactors", "client_software_version": __version__}
    return wire.call(wire.brokers()[0], _API_VERSIONS, 4, body)  # version 3 hides the features that may be off


def _wire(bootstrap: str) -> ClusterRequests:
    from streamactors.kafka.client.cluster_requests import ClusterRequests

    return ClusterRequests(bootstrap, client_settings(bootstrap).security())
