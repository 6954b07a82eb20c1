"""`streamactors broker --processes N`: several brokers on this host, one process each, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamactors.cli.clusters.broker_output import say
from streamactors.cli.log_options import LOG_FORMAT
from streamactors.cli.metrics_options import tell_token

if TYPE_CHECKING:
    from streamactors.broker.http.endpoint_address import MetricsEndpoint


def run_processes(
    given: Mapping[str, Any],
    processes: int,
    *,
    adopt: bool,
    add_scram: Sequence[str],
    endpoint: MetricsEndpoint | None,
    log_level: str,
    log_format: str,
) -> None:
    """Run the brokers until a signal asks them to stop. `given` are the settings of one; `endpoint` is where the first serves its metrics.

    Raises InvalidSetting or BrokerStartError before a broker serves clients."""
    from streamactors.broker.cluster.host_brokers import HostBrokers
    from streamactors.broker.cluster.host_folders import prepare
    from streamactors.broker.cluster.host_settings import settings_of_each
    from streamactors.broker.cluster.reserved_ports import ReservedPorts
    from streamactors.broker.config.broker_config import BrokerConfig

    given = dict(given)
    named = BrokerConfig.of(given).data_folder
    ports = ReservedPorts()
    with ExitStack() as undo:
        undo.callback(ports.close)
        if named is None:
            folder = Path(tempfile.mkdtemp(prefix="streamactors-"))
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
        else:
            folder = Path(named).expanduser().absolute()
        given["log.dirs"] = str(folder)
        each_settings = settings_of_each(given, processes, lambda: ports.reserve(in_a_row=processes))
        prepare(folder, processes, adopt=adopt)
        arguments = [
            {
                "listen": [],
                "advertise": [],
                "data": None,
                "settings": settings,
                "metrics": None
                if endpoint is None
                else endpoint._replace(port=endpoint.port and endpoint.port + number),
                "add_scram": list(add_scram) if number == 0 else [],
                "log": {
                    "level": log_level,
                    "as_json": log_format == "json",
                    "text_format": LOG_FORMAT.replace("%(name)s", f"broker {settings['node.id']} %(name)s"),
                    "fields": {"broker": str(settings["node.id"])},
                },
            }
            for number, settings in enumerate(each_settings)
        ]
        brokers = undo.enter_context(HostBrokers(arguments))
        children = [each.child for each in brokers.brokers if each.child is not None]
        where = ", ".join(child.bootstrap_servers for child in children)
        remark = " (temporary: it goes with the brokers; keep it with --data DIR)" if named is None else ""
        say(f"streamactors broker ready: {where}, data in {folder}{remark}, cluster id {children[0].cluster_id}")
        for each, child in zip(brokers.brokers, children, strict=True):
            say(f"  broker {each.node_id}: {child.bootstrap_servers}, process {child.pid}")
        tell_token(endpoint)
        brokers.serve()
