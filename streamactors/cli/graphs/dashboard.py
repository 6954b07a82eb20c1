"""`streamactors dashboard`: several processes on one page."""

from __future__ import annotations

import click

from streamactors.cli.dashboard_options import allow_changes_option


@click.command("dashboard")
@click.argument("urls", metavar="URL…", nargs=-1, required=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    metavar="PORT",
    help="The port to serve at; 0: a free one.",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="The address to serve at.")
@click.option(
    "--host-name", "hosts", multiple=True, metavar="NAME", help="A name of a proxy that the page is reached by."
)
@allow_changes_option
def command(urls: tuple[str, ...], port: int, host: str, hosts: tuple[str, ...], allow_changes: bool) -> None:
    """Serve one page for several processes, until Ctrl-C. URL is the address that a process has printed, with its token.

    A process prints it when it is started with `--dashboard`, or by `print(system.serve_dashboard().url)`.

    With `--allow-changes` dead letters may be sent again, by processes whose own pages allow it.

    \b
    Example:
      streamactors dashboard 'http://127.0.0.1:4040/#token=…' 'http://127.0.0.1:4041/#token=…'
    """
    import threading

    from streamactors.dashboard.combining import Combiner, Remote
    from streamactors.dashboard.serving import Dashboard

    combiner = Combiner([Remote(url) for url in urls])
    with Dashboard(combiner, port=port, host=host, hosts=hosts, allow_changes=allow_changes) as page:
        combiner.last  # noqa: B018  # the first states, so that a wrong token is said at once
        for why in combiner.silent.values():
            click.echo(f"streamactors: {why}", err=True)
        click.echo(f"live page: {page.url}")
        threading.Event().wait()
