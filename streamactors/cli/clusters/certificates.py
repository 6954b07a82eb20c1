"""`streamactors certificates`: an authority and a broker's certificate, for tests and laptops."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("certificates")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    default=("localhost", "127.0.0.1", "::1"),
    show_default=True,
    help="A name or address of the broker.",
)
def command(folder: Path, hosts: tuple[str, ...]) -> None:
    """Make FOLDER/ca.pem, which clients trust, and FOLDER/server.pem, the broker's key and certificate. Needs the extra `tls`.

    \b
    Example:
      streamactors certificates ./tls --host broker.example.org
    """
    from streamactors.broker.cluster.cluster_credentials import make_certificates

    if (folder / "server.pem").exists():
        raise click.ClickException(f"{folder / 'server.pem'} exists; name another folder, or remove it")
    try:
        make_certificates(folder, hosts)
    except OSError as error:
        raise click.ClickException(f"{folder}: cannot write certificates there ({error.strerror})") from None
    click.echo(f"broker: ssl.keystore.location={folder / 'server.pem'}")
    click.echo(f"clients: ssl.ca.location={folder / 'ca.pem'}")
