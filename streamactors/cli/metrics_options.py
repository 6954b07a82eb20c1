"""The options of the commands that serve metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from streamactors.broker.http.door import HttpDoor

Fn = TypeVar("Fn", bound=Callable[..., Any])


def metrics_options(fn: Fn) -> Fn:
    """Give a command `--metrics-port`, `--metrics-token-file` and `--metrics-certificate`; they arrive as `metrics`."""
    for option in (
        click.option(
            "--metrics-certificate",
            metavar="FILE",
            envvar="STREAMACTORS_METRICS_CERTIFICATE",
            show_envvar=True,
            help="Serve metrics over HTTPS: a PEM file with the certificate chain and its key.",
        ),
        click.option(
            "--metrics-token-file",
            metavar="FILE",
            envvar="STREAMACTORS_METRICS_TOKEN_FILE",
            show_envvar=True,
            help="The token that /metrics and /ready ask for. Without a file each start makes one and prints it; other hosts need a file.",
        ),
        click.option("--metrics-port", metavar="[HOST:]PORT", help="Serve /metrics (Prometheus) and /ready over HTTP."),
    ):
        fn = option(fn)
    return fn


def metrics_door(given: dict[str, Any]) -> HttpDoor | None:
    """Return the door of the options; None without `--metrics-port`. Raises InvalidSetting."""
    from streamactors.broker.http.door import HttpDoor

    port, token, certificate = (given[f"metrics_{name}"] for name in ("port", "token_file", "certificate"))
    return None if port is None else HttpDoor.of(port, token, certificate)


def tell_token(door: HttpDoor | None) -> None:
    """Say on stderr which token was made for this start, if one was."""
    if door is not None and door.made:
        click.echo(
            f"/metrics and /ready ask for `Authorization: Bearer {door.token}`; the token is new at each start, --metrics-token-file FILE gives one that stays",
            err=True,
        )
