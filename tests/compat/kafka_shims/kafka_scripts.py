"""The options of Apache Kafka's scripts, carried out by this broker and its commands.

Run as `python -m tests.compat.kafka_shims.kafka_scripts kafka-topics.sh …`. The scripts know the options that fixtures use;
any other option is refused by name with exit code 2."""

from __future__ import annotations

import argparse
import logging
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamactors.errors import StreamActorsError
from tests.compat.kafka_shims.kafka_group_scripts import groups, transactions
from tests.compat.kafka_shims.script_options import Options, Unknown, client_options

if TYPE_CHECKING:
    from streamactors.broker.server.server import Broker
    from streamactors.kafka.client.admin_values import TopicDetail

_ALLOWS_EVERYBODY: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


# -- the broker ----------------------------------------------------------------------------------------------------


def storage(arguments: Sequence[str]) -> int:
    """kafka-storage.sh: format a data folder, or make up a cluster id."""
    options = Options(prog="kafka-storage.sh")
    options.add_argument("command", choices=["format", "random-uuid"])
    options.add_argument("-t", "--cluster-id")
    options.add_argument("-c", "--config")
    options.add_argument("-g", "--ignore-formatted", action="store_true")
    options.add_argument("-s", "--standalone", action="store_true")
    asked = options.parse_args(arguments)
    if asked.command == "random-uuid":
        from streamactors.broker.log.partition_metadata import encode_uuid

        print(encode_uuid(uuid.uuid4()))
        return 0
    if not asked.cluster_id or not asked.config:
        raise Unknown("kafka-storage.sh format: -t CLUSTER_ID and -c CONFIG are required")
    return _format(Path(asked.config), asked.cluster_id, asked.ignore_formatted)


def _format(config: Path, cluster_id: str, ignore_formatted: bool) -> int:
    from streamactors.broker.launch.startup import assemble
    from streamactors.broker.log.disk import Disk
    from streamactors.broker.log.folders.data_folder import DataFolder

    assembled = assemble(settings=settings_of(config))
    folder = DataFolder(Disk(), assembled.folder)
    try:
        folder.open(assembled.config.effective_node_id, cluster_id)
    finally:
        folder.unlock()
    if not folder.is_new and not ignore_formatted:
        print(f"Log directory {assembled.folder} is already formatted.", file=sys.stderr)
        return 1
    print(f"Formatting metadata directory {assembled.folder}")
    return 0


def run_class(arguments: Sequence[str]) -> int:
    """kafka-run-class.sh: the one class that is a broker."""
    options = Options(prog="kafka-run-class.sh")
    options.add_argument("-daemon", action="store_true")
    options.add_argument("main_class")
    options.add_argument("rest", nargs=argparse.REMAINDER)
    asked = options.parse_args(arguments)
    if asked.main_class != "kafka.Kafka":
        raise Unknown(f"kafka-run-class.sh: there is no {asked.main_class} here, only kafka.Kafka")
    return server_start(asked.rest)


def server_start(arguments: Sequence[str]) -> int:
    """kafka-server-start.sh: a broker with a server.properties, until it is stopped."""
    options = Options(prog="kafka-server-start.sh")
    options.add_argument("config")
    options.add_argument("--override", action="append", default=[])
    asked = options.parse_args(arguments)
    from streamactors.broker.launch.standalone import run
    from streamactors.broker.launch.startup import assemble, parse_setting

    logging.basicConfig(level="INFO", stream=sys.stdout, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
    overrides = dict(parse_setting(each) for each in asked.override)
    assembled = assemble(settings={**settings_of(Path(asked.config)), **overrides})

    def ready(broker: Broker) -> None:
        # Fixtures wait for this line of Apache Kafka's.
        logging.getLogger("kafka.server.KafkaRaftServer").info(
            "[KafkaRaftServer nodeId=%d] Kafka Server started", broker.node.node_id
        )

    run(assembled, ready)
    return 0


def settings_of(config: Path) -> dict[str, str]:
    """Return the settings of a server.properties.

    An authorizer that allows everybody what no ACL forbids does nothing as long as there are no ACLs, and this
    broker has none; any other is refused by name when the settings are checked."""
    from streamactors.broker.config.properties import read_properties

    settings = read_properties(config)
    if (
        settings.get("authorizer.class.name") == _ALLOWS_EVERYBODY
        and settings.get("allow.everyone.if.no.acl.found", "").lower() == "true"
    ):
        del settings["authorizer.class.name"], settings["allow.everyone.if.no.acl.found"]
        settings.pop("super.users", None)
    return settings


# -- administration ------------------------------------------------------------------------------------------------


def topics(arguments: Sequence[str]) -> int:
    """kafka-topics.sh: --create, --alter, --delete, --list, --describe."""
    options = client_options("kafka-topics.sh")
    for verb in ("create", "alter", "delete", "list", "describe"):
        options.add_argument(f"--{verb}", action="store_const", const=verb, dest="verb")
    options.add_argument("--topic")
    options.add_argument("--partitions")
    options.add_argument("--replication-factor")
    options.add_argument("--config", action="append", default=[])
    options.add_argument("--if-not-exists", action="store_true")
    options.add_argument("--if-exists", action="store_true")
    asked = options.parse_args(arguments)
    if asked.verb is None or (asked.topic is None and asked.verb not in ("list", "describe")):
        raise Unknown("kafka-topics.sh: one of --create, --alter, --delete, --list, --describe, and a --topic")
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.errors import KafkaError
    from streamactors.kafka.settings import ClientSettings

    admin = Admin(ClientSettings(asked.bootstrap_server))
    existing = {topic.name for topic in admin.topics()}
    if asked.verb == "list":
        print(*sorted(existing), sep="\n", end="\n" if existing else "")
        return 0
    if asked.verb == "describe":
        for name in sorted(existing) if asked.topic is None else [asked.topic]:
            _print_topic(admin.describe(name))
        return 0
    try:
        if asked.verb == "create":
            if asked.if_not_exists and asked.topic in existing:
                return 0
            settings = dict(text.partition("=")[::2] for text in asked.config)
            admin.create(asked.topic, int(asked.partitions or -1), int(asked.replication_factor or -1), settings)
            print(f"Created topic {asked.topic}.")
        elif asked.verb == "alter":
            admin.grow(asked.topic, int(asked.partitions))
        elif not (asked.if_exists and asked.topic not in existing):
            admin.delete(asked.topic)
    except KafkaError as error:
        print(f"Error while executing topic command : {error}")
        return 1
    return 0


def _print_topic(topic: TopicDetail) -> None:
    partitions, name = topic.partitions, topic.name
    replicas = len(partitions[0].replicas) if partitions else 0
    settings = ",".join(f"{key}={value}" for key, value in topic.settings.items())
    print(f"Topic: {name}\tPartitionCount: {len(partitions)}\tReplicationFactor: {replicas}\tConfigs: {settings}")
    for p in partitions:
        places = ",".join(map(str, p.replicas)), ",".join(map(str, p.in_sync))
        print(f"\tTopic: {name}\tPartition: {p.partition}\tLeader: {p.leader}\tReplicas: {places[0]}\tIsr: {places[1]}")


def configs(arguments: Sequence[str]) -> int:
    """kafka-configs.sh: a topic's settings."""
    options = client_options("kafka-configs.sh")
    options.add_argument("--alter", action="store_true")
    options.add_argument("--describe", action="store_true")
    options.add_argument("--entity-type")
    options.add_argument("--entity-name")
    options.add_argument("--topic")
    options.add_argument("--add-config", default="")
    options.add_argument("--delete-config", default="")
    asked = options.parse_args(arguments)
    name = asked.topic or (asked.entity_name if asked.entity_type == "topics" else None)
    if name is None or asked.alter == asked.describe:
        raise Unknown("kafka-configs.sh: only --alter or --describe of a topic's settings is known here")
    from streamactors.kafka.client.admin import Admin
    from streamactors.kafka.settings import ClientSettings

    admin = Admin(ClientSettings(asked.bootstrap_server))
    if asked.describe:
        print(f"Dynamic configs for topic {name} are:")
        for key, value in sorted(admin.describe(name).settings.items()):
            print(f"  {key}={value}")
        return 0
    changes: dict[str, str | None] = dict.fromkeys(filter(None, asked.delete_config.split(",")))
    changes.update(_assignments(asked.add_config))
    admin.alter(name, changes)
    print(f"Completed updating config for topic {name}.")
    return 0


def _assignments(text: str) -> Mapping[str, str]:
    """Return the settings in `a=1,b=[2,3]`."""
    found: dict[str, str] = {}
    while text:
        name, _, rest = text.partition("=")
        if rest.startswith("["):
            value, _, text = rest[1:].partition("]")
            text = text.removeprefix(",")
        else:
            value, _, text = rest.partition(",")
        found[name.strip()] = value
    return found


def acls(arguments: Sequence[str]) -> int:
    """kafka-acls.sh: there are none; it says so as Apache Kafka does without an authorizer."""
    print("Error while executing ACL command: No Authorizer is configured.", file=sys.stderr)
    return 1


SCRIPTS: Final[Mapping[str, Callable[[Sequence[str]], int]]] = {
    "kafka-storage.sh": storage,
    "kafka-run-class.sh": run_class,
    "kafka-server-start.sh": server_start,
    "kafka-topics.sh": topics,
    "kafka-configs.sh": configs,
    "kafka-acls.sh": acls,
    "kafka-consumer-groups.sh": groups,
    "kafka-transactions.sh": transactions,
}


def main(arguments: Sequence[str]) -> int:
    """Run a script by its name; return the exit code."""
    try:
        return SCRIPTS[arguments[0]](arguments[1:])
    except StreamActorsError as error:
        print(error, file=sys.stderr)
        return int(getattr(error, "exit_code", 1))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
