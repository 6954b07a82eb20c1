"""`streamactors state`: list, check, export and repair state on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from streamactors.cli.progress import progress
from streamactors.cli.tables import json_option, print_json, print_table
from streamactors.windows.state.disk.inspection import Inspection, StoreOnDisk

folder_argument = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))


@contextmanager
def _inspected(folder: Path) -> Iterator[Inspection]:
    inspection = Inspection(folder)
    try:
        yield inspection
    finally:
        inspection.close()


@click.group("state")
def command() -> None:
    """List, check, export and repair state on disk. The run that uses the folder must have stopped.

    \b
    Examples:
      streamactors state list ./state
      streamactors state check ./state
    """


@command.command("list")
@folder_argument
@json_option
def list_stores(folder: Path, as_json: bool) -> None:
    """List the stores: entries, bytes, and the changelog offset up to which each is complete.

    \b
    Example:
      streamactors state list ./state --json
    """
    with _inspected(folder) as inspection:
        found: list[StoreOnDisk] = []
        databases = list(inspection.databases())
        with progress(f"read {folder}", len(databases), "databases", quiet=as_json) as bar:
            for database in databases:
                found += inspection.stores(*database)
                bar.add()
    if as_json:
        print_json(store._asdict() for store in found)
    elif found:
        print_table(("application", "store", "partition", "entries", "bytes", "offset"), found)
    else:
        click.echo(f"no stores in {folder}")


@command.command("check")
@folder_argument
def check(folder: Path) -> None:
    """Read every entry; exit with 1 if a database is damaged.

    \b
    Example:
      streamactors state check ./state
    """
    with _inspected(folder) as inspection:
        count = sum(1 for _ in inspection.databases())
        with progress(f"check {folder}", count, "databases") as bar:
            damaged = inspection.damaged(bar.add)
    for _, why in damaged:
        click.echo(why)
    if damaged:
        raise click.ClickException(
            f"{len(damaged)} of {count} databases are damaged; `streamactors state repair {folder}` removes them, and the next run restores "
            "them from their changelogs"
        )
    click.echo(f"{count} databases are sound")


@command.command("export")
@folder_argument
@click.option("--store", required=True, help="The store's name; see `streamactors state list`.")
@click.option("--partition", type=int, help="Only this partition.")
def export(folder: Path, store: str, partition: int | None) -> None:
    """Print the entries of a store, one JSON object per line: the partition, and the fields of the entry, the key first.

    \b
    Example:
      streamactors state export ./state --store counts-store
    """
    with _inspected(folder) as inspection:
        databases = [database for database in inspection.databases() if partition in (None, database[1])]
        names = {store.store for database in databases for store in inspection.stores(*database)}
        if store not in names:
            raise click.ClickException(
                f"no store {store!r} in {folder}; there are: {', '.join(sorted(names)) or 'none'}"
            )
        for _, number, path in databases:  # each entry is a line: that is progress enough
            print_json({"partition": number, "fields": fields} for fields in inspection.entries(path, store))


@command.command("repair")
@folder_argument
@click.option("--yes", is_flag=True, help="Do not ask.")
def repair(folder: Path, yes: bool) -> None:
    """Remove the damaged databases. The next run restores them from their changelogs; nothing is lost.

    \b
    Example:
      streamactors state repair ./state --yes
    """
    with _inspected(folder) as inspection:
        with progress(f"check {folder}", sum(1 for _ in inspection.databases()), "databases") as bar:
            damaged = inspection.damaged(bar.add)
        if not damaged:
            click.echo(f"nothing in {folder} is damaged")
            return
        for path, why in damaged:
            click.echo(why)
            if yes or click.confirm(f"remove {path}?"):
                inspection.remove(path)
                click.echo(f"removed {path}; the next run restores it")
