"""`streamactors broker`: a Kafka-compatible broker in this process."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from streamactors.cli.clusters.broker_output import say
from streamactors.cli.log_options import LOG_FORMAT, log_options
from streamactors.cli.metrics_options import metrics_endpoint, metrics_options, tell_token
from streamactors.cli.progress import progress
from streamactors.json_log import configure

if TYPE_CHECKING:
    from streamactors.broker.server.server import Broker


@click.command("broker")
@click.option(
    "--listen",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help="Address to listen on; may be given several times. localhost is 127.0.0.1 and ::1.  [default: localhost:9092]",
)
@click.option(
    "--advertise",
    multiple=True,
    metavar="[NAME://]HOST:PORT",
    help="Address of a listener for clients: for containers, WSL and remote clients.",
)
@click.option(
    "--data", multiple=True, metavar="DIR", help="Data folder; may be given several times.  [default: a temporary one]"
)
@click.option("--config", metavar="FILE", help="A server.properties file with Apache Kafka's names.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One setting; may be given several times.")
@click.option(
    "--add-scram",
    multiple=True,
    metavar="MECHANISM=[name=USER,password=PASSWORD]",
    help="A user who can log in from the start (KIP-900); may be given several times.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    metavar="N",
    help="Run N brokers, one process each: node.id and every port count up from the given ones, data is in DIR/0, DIR/1 and so on.",
)
@click.option(
    "--adopt", is_flag=True, help="With --processes: the data of a single broker in DIR becomes that of the first one."
)
@metrics_options
@log_options
def command(
    listen: tuple[str, ...],
    advertise: tuple[str, ...],
    data: tuple[str, ...],
    config: str | None,
    settings: tuple[str, ...],
    add_scram: tuple[str, ...],
    processes: int,
    adopt: bool,
    log_level: str | None,
    log_format: str | None,
    **metrics: Any,
) -> None:
    """Start a Kafka-compatible broker and run it until Ctrl-C or SIGTERM.

    \b
    Examples:
      streamactors broker
      streamactors broker --data ./data --set num.partitions=4
      streamactors broker --data ./data --processes 4
      streamactors broker --listen localhost:9092 --listen DOCKER://0.0.0.0:29092 --advertise DOCKER://host.docker.internal:29092
    """
    from streamactors.broker.launch.standalone import run
    from streamactors.broker.launch.startup import assemble, merged, parse_setting

    configure(log_level or "warning", as_json=log_format == "json", text_format=LOG_FORMAT)
    endpoint = metrics_endpoint(metrics)
    given: dict[str, Any] = {
        "listen": listen,
        "advertise": advertise,
        "data": data,
        "properties": config,
        "settings": dict(parse_setting(each) for each in settings),
    }
    if processes > 1:
        from streamactors.cli.clusters.broker_processes import run_processes

        run_processes(
            merged(**given),
            processes,
            adopt=adopt,
            add_scram=add_scram,
            endpoint=endpoint,
            log_level=log_level or "warning",
            log_format=log_format or "text",
        )
        return
    if adopt:
        raise click.UsageError("--adopt is for several brokers; give --processes N too")
    assembled = assemble(**given, add_scram=add_scram)

    starting = ExitStack()

    def ready(broker: Broker) -> None:
        starting.close()
        where = ", ".join(str(listener) for listener in broker.node.listeners)
        folder = ", ".join(str(each.path) for each in broker.node.logs.folders.all)
        if assembled.temporary:
            folder += " (temporary: it goes with the broker; keep it with --data DIR)"
        say(f"streamactors broker ready: {where}, data in {folder}, cluster id {broker.node.cluster_id}")
        tell_token(endpoint)

    with starting:
        starting.enter_context(progress("start the broker: open its logs, and check them after a crash"))
        run(assembled, ready, metrics=endpoint)
