"""The options of the commands that serve metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamactors.json_log import say as say_as_json

if TYPE_CHECKING:
    from streamactors.actors.system import ActorSystem
    from streamactors.broker.http.endpoint_address import MetricsEndpoint
    from streamactors.metrics.otlp import Exporting

Fn = TypeVar("Fn", bound=Callable[..., Any])


def metrics_options(fn: Fn) -> Fn:
    """Give a command `--metrics-port`, `--metrics-token-file`, `--metrics-certificate` and `--probes-without-token`; they arrive as `metrics`."""
    for option in (
        click.option(
            "--probes-without-token",
            "metrics_open_probes",
            is_flag=True,
            envvar="STREAMACTORS_PROBES_WITHOUT_TOKEN",
            show_envvar=True,
            help="/live and /ready answer to other hosts without the token: one word. On loopback they always do.",
        ),
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
            help="The token that /metrics asks for. Without a file each start makes one and prints it; other hosts need a file.",
        ),
        click.option(
            "--metrics-port", metavar="[HOST:]PORT", help="Serve /metrics (Prometheus), /live and /ready over HTTP."
        ),
    ):
        fn = option(fn)
    return fn


def metrics_endpoint(given: dict[str, Any]) -> MetricsEndpoint | None:
    """Return the endpoint of the options; None without `--metrics-port`. Raises InvalidSetting."""
    from streamactors.broker.http.endpoint_address import MetricsEndpoint

    port, token, certificate = (given[f"metrics_{name}"] for name in ("port", "token_file", "certificate"))
    if port is None:
        return None
    return MetricsEndpoint.of(port, token, certificate, probes_without_token=given["metrics_open_probes"])


def tell_token(endpoint: MetricsEndpoint | None) -> None:
    """Say on stderr which token was made for this start, if one was."""
    if endpoint is not None and endpoint.made:
        line = f"/metrics asks for `Authorization: Bearer {endpoint.token}`; the token is new at each start, --metrics-token-file FILE gives one that stays"
        if not say_as_json("streamactors", line):
            click.echo(line, err=True)


def check_export(given: str | None) -> None:
    """Raise a usage error unless `--metrics-export` is otlp or otlp:URL."""
    if given is not None and given.partition(":")[0] != "otlp":
        raise click.BadParameter(f"it is otlp or otlp:URL, got {given!r}", param_hint="--metrics-export")


def exported(given: str, system: ActorSystem) -> Exporting:
    """Export the metrics of a system as `--metrics-export` says. Raises BuildError for a wrong URL, and without the extra `otel`."""
    from streamactors.metrics import export_metrics

    return export_metrics(system, given.partition(":")[2] or None)
