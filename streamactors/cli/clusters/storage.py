"""`streamactors storage`: formats a data folder, and says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from streamactors.broker.config.broker_config import BrokerConfig

DATA_HELP = (
    "Data folder; may be given several times, the one of the metadata log first.  [default: log.dirs of --config]"
)


@click.group("storage")
def command() -> None:
    """Format data folders, and describe them.

    \b
    Example:
      streamactors storage format --cluster-id $(streamactors storage random-uuid) --node-id 1 --data ./1
    """


@command.command("random-uuid")
def random_uuid() -> None:
    """Print an id for a new cluster.

    \b
    Example:
      streamactors storage random-uuid
    """
    from streamactors.broker.launch.storage_format import new_cluster_id

    click.echo(new_cluster_id())


@command.command("format")
@click.option("--cluster-id", "-t", required=True, metavar="ID", help="Id of the cluster, the same on all its nodes.")
@click.option(
    "--config", "-c", metavar="FILE", help="A server.properties file: node.id and log.dirs are taken from it."
)
@click.option(
    "--node-id", type=click.IntRange(0), metavar="N", help="Id of the node.  [default: node.id of --config, or 1]"
)
@click.option("--data", multiple=True, metavar="DIR", help=DATA_HELP)
@click.option(
    "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="A feature with which the cluster begins."
)
@click.option(
    "--release-version",
    "-r",
    metavar="RELEASE",
    help="The release of Apache Kafka whose features the cluster begins with, as in 4.0.  [default: 4.4]",
)
@click.option(
    "--standalone", "-s", is_flag=True, help="The node is the only voter of a quorum that can get more voters."
)
@click.option(
    "--initial-controllers",
    "-I",
    metavar="VOTERS",
    help="The voters of the quorum, id@host:port:directory,…, the same on each of them; random-uuid makes directories.",
)
@click.option(
    "--no-initial-controllers", "-N", is_flag=True, help="The quorum exists already, and this node has no vote in it."
)
@click.option("--ignore-formatted", "-g", is_flag=True, help="Leave a folder that is formatted already as it is.")
def format_(
    cluster_id: str,
    config: str | None,
    node_id: int | None,
    data: tuple[str, ...],
    features: tuple[str, ...],
    release_version: str | None,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    ignore_formatted: bool,
) -> None:
    """Make a folder the data folder of a node. Each of several controllers is formatted with the id of their cluster.

    The controllers are named by controller.quorum.voters in the settings, or with --standalone or --initial-controllers by the metadata log
    itself (kraft.version 1, KIP-853).

    \b
    Examples:
      ID=$(streamactors storage random-uuid)
      streamactors storage format --cluster-id $ID --config controller-1.properties
      streamactors storage format --cluster-id $ID --node-id 1 --data ./1
      streamactors storage format --cluster-id $ID --config controller-1.properties --standalone
    """
    from streamactors.broker.launch.first_voters import first_voters
    from streamactors.broker.launch.storage_format import format_folder, read_folder

    if standalone + (initial_controllers is not None) + no_initial_controllers > 1:
        raise click.UsageError(
            "--standalone, --initial-controllers and --no-initial-controllers exclude each other; give one of them"
        )
    folders, settings = _folders(config, data)
    node_id = settings.effective_node_id if node_id is None else node_id
    voters = first_voters(settings, node_id, initial_controllers) if standalone or initial_controllers else None
    levels = _levels(features, release_version)
    for folder in folders:
        if ignore_formatted and read_folder(folder) is not None:
            click.echo(f"{folder} is formatted already")
        else:
            format_folder(folder, node_id, cluster_id, levels, voters)
            click.echo(f"formatted {folder} for node {node_id} of cluster {cluster_id}")
        voters = None  # the metadata log is in the first folder


@command.command("info")
@click.option("--config", "-c", metavar="FILE", help="A server.properties file: log.dirs is taken from it.")
@click.option("--data", multiple=True, metavar="DIR", help=DATA_HELP)
def info(config: str | None, data: tuple[str, ...]) -> None:
    """Say of which cluster and node a data folder is, and which voters its metadata log names. Ends with 1 for a folder that is not formatted.

    \b
    Example:
      streamactors storage info --data ./1
    """
    from streamactors.broker.launch.storage_format import read_folder
    from streamactors.broker.log.partition_metadata import encode_uuid
    from streamactors.broker.server.stored_quorum import voters_of_folder

    folders, _ = _folders(config, data)
    for folder in folders:
        properties = read_folder(folder)
        if properties is None:
            raise click.ClickException(f"{folder} is not formatted; streamactors storage format makes it a data folder")
        click.echo(f"folder        {folder}")
        click.echo(f"cluster.id    {properties.cluster_id}")
        click.echo(f"node.id       {properties.node_id}")
        if properties.directory_id is not None:
            click.echo(f"directory.id  {encode_uuid(properties.directory_id)}")
    voters = voters_of_folder(folders[0])
    click.echo(f"kraft.version {0 if voters is None else 1}")
    for each in () if voters is None else voters.voters:
        click.echo(f"voter         {each}")


def _folders(config: str | None, data: tuple[str, ...]) -> tuple[list[Path], BrokerConfig]:
    """Return the data folders, the one with the metadata log first, and the settings."""
    from streamactors.broker.config.broker_config import BrokerConfig
    from streamactors.broker.config.properties import read_properties

    settings = BrokerConfig.of(read_properties(Path(config))) if config is not None else BrokerConfig.of({})
    first = data[0] if data else settings.data_folder
    if not first:
        raise click.UsageError("name the folder with --data DIR, or a file that has log.dirs with --config FILE")
    others = data[1:] if data else settings.data_folders
    found = [Path(each).expanduser().absolute() for each in (first, *others)]
    return list(dict.fromkeys(found)), settings


def _levels(features: tuple[str, ...], release: str | None) -> dict[str, int]:
    """Return the levels of --feature and --release-version, by feature."""
    from streamactors.broker.controller.rules.release_levels import level_of_release
    from streamactors.broker.metadata.image import METADATA_VERSION

    levels = dict(map(level, features))
    if release is None:
        return levels
    if METADATA_VERSION in levels:
        raise click.UsageError(
            f"--release-version and --feature {METADATA_VERSION} exclude each other; give one of them"
        )
    try:
        return {METADATA_VERSION: level_of_release(release), **levels}
    except ValueError as error:
        raise click.UsageError(f"--release-version: {error}") from error


def level(text: str) -> tuple[str, int]:
    """Return the name and the level of a --feature."""
    name, _, number = text.partition("=")
    if not name or not number.isdecimal():
        raise click.UsageError(f"--feature {text}: its form is NAME=LEVEL, as in metadata.version=33")
    return name, int(number)
