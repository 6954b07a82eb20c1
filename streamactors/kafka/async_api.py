"""asyncapi: the AsyncAPI 3 document of a graph: the topics that it reads and writes, and the schemas of their records.

Nothing is run and no broker is asked. The types are those that the user gave: `Consumer.records(value=Order)`, `topics.stream("orders",
value=Order)`, `Producer.plain_sink(settings, value=Total)`. The document has addresses of brokers, and never their credentials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from streamactors.engine.planning.plan import flat_of
from streamactors.errors import BuildError
from streamactors.kafka.serdes.json_schemas import Schema, Schemas
from streamactors.kafka.serdes.topic_types import TopicTypes, types_of
from streamactors.kafka.settings import ClientSettings, ConsumerSettings
from streamactors.kafka.subscriptions import AutoSubscription, ManualSubscription, Subscription

ASYNCAPI: Final = "3.0.0"
_BINDING: Final = "0.5.0"
_NAMED: Final[Mapping[str, tuple[str, Schema]]] = {
    "bytes": ("application/octet-stream", {"type": "string", "format": "binary"}),
    "string": ("text/plain", {"type": "string"}),
    "integer": ("application/octet-stream", {"type": "integer", "format": "int64"}),
    "int32": ("application/octet-stream", {"type": "integer", "format": "int32"}),
    "int64": ("application/octet-stream", {"type": "integer", "format": "int64"}),
    "json": ("application/json", {}),
    "msgpack": ("application/msgpack", {}),
}


def asyncapi(
    graph: Any, *, title: str = "streams", version: str = "1.0.0", writes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the AsyncAPI 3 document of a runnable graph, as a dict for `json.dumps`.

    `title` and `version`: of the application. `writes`: the topics of sinks that learn their topics only from records, as Producer.plain_sink does: the
    type of the values, as a sink takes it (a class, the name of a serde), or a pair of the types of keys and values. Raises BuildError for such a
    sink if `writes` is not given, and for types that have no schema."""
    module = getattr(graph, "module", None)
    if module is None:
        raise BuildError(f"asyncapi expects a runnable graph, got {type(graph).__name__}")
    document = _Document(title, version)
    unnamed: list[str] = []
    flat = flat_of(module)
    after = {upstream: downstream for (upstream, _), (downstream, _) in flat.edges}
    before = {downstream: upstream for (upstream, _), (downstream, _) in flat.edges}
    for number, node in enumerate(flat.nodes):
        client = getattr(node.stage, "plan", node.stage)
        settings, subscription = getattr(client, "settings", None), getattr(client, "subscription", None)
        if not isinstance(settings, ClientSettings):
            continue
        document.server(settings)
        if isinstance(subscription, Subscription):
            near = [] if number not in after else types_of(flat.nodes[after[number]].stage)
            for each in _received(subscription, near):
                document.add(each, settings)
        elif not _is_named(flat.nodes, before, number):
            unnamed.append(node.label)
    for node in flat.nodes:
        for each in types_of(node.stage):
            if each.action == "send" and each.topic:
                document.add(each, None)
    for topic, given in (writes or {}).items():
        key, value = given if isinstance(given, tuple) else (None, given)
        document.add(TopicTypes("send", topic, key, value), None)
    if unnamed and not writes:
        raise BuildError(
            f"asyncapi: the topics of {unnamed[0]} are known only when its records come; name them and the types of their values: "
            'writes={"totals": Total}'
        )
    return document.finished()


def _is_named(nodes: list[Any], before: Mapping[int, int], writer: int) -> bool:
    """Whether a step before a writer of records names the topic. A step of serdes may lie between the two."""
    number = before.get(writer)
    while number is not None:
        types = list(types_of(nodes[number].stage))
        if any(each.action == "send" and each.topic for each in types):
            return True
        number = before.get(number) if types else None
    return False


def _received(subscription: Subscription, near: Iterable[TopicTypes]) -> Iterator[TopicTypes]:
    """The types of the topics of a source: those that the step after it names, or the same for all."""
    types = [each for each in near if each.action == "receive"]
    named = {each.topic: each for each in types if each.topic is not None}
    if named:
        yield from named.values()
        return
    of_all = types[0] if types else TopicTypes("receive", None)
    if isinstance(subscription, AutoSubscription) and subscription.pattern is not None:
        yield TopicTypes("receive", None, of_all.key, of_all.value, subscription.pattern)
        return
    names = subscription.topics if isinstance(subscription, AutoSubscription) else ()
    if isinstance(subscription, ManualSubscription):
        names = tuple(dict.fromkeys(key.topic for key in subscription.partitions))
    for topic in names:
        yield TopicTypes("receive", topic, of_all.key, of_all.value)


class _Document:
    """The parts of a document."""

    def __init__(self, title: str, version: str) -> None:
        self._info = {"title": title, "version": version}
        self._servers: dict[str, Schema] = {}
        self._channels: dict[str, Schema] = {}
        self._operations: dict[str, Schema] = {}
        self._messages: dict[str, Schema] = {}
        self._schemas = Schemas()

    def server(self, settings: ClientSettings) -> None:
        """Add the brokers of a client. With discovery, they are not known before the run."""
        if settings.discover is not None:
            return
        secure = str(settings.security().get("security.protocol", "")).upper().endswith("SSL")
        for host in settings.bootstrap_servers.split(","):
            entry = {"host": host.strip(), "protocol": "kafka-secure" if secure else "kafka"}
            if entry not in self._servers.values():
                self._servers[f"kafka{len(self._servers) + 1}"] = entry

    def add(self, types: TopicTypes, settings: ClientSettings | None) -> None:
        """Add a topic that is received or sent. Types of a topic that are given twice must be the same."""
        name = types.topic or f"pattern{sum(name.startswith('pattern') for name in self._channels) + 1}"
        message = self._message(types)
        known = self._messages.setdefault(name, message)
        if known != message:
            raise BuildError(
                f"asyncapi: topic {name} has two types in this graph: {known['payload']} and {message['payload']}; a topic has one"
            )
        channel = self._channels.setdefault(
            name,
            {"address": types.topic, "messages": {"record": {"$ref": f"#/components/messages/{name}"}}},
        )
        if types.topic is None:
            channel["description"] = f"Topics whose names match {types.title}"
        else:
            channel["bindings"] = {"kafka": {"topic": types.topic, "bindingVersion": _BINDING}}
        operation: Schema = {
            "action": types.action,
            "channel": {"$ref": f"#/channels/{name}"},
            "messages": [{"$ref": f"#/channels/{name}/messages/record"}],
        }
        if isinstance(settings, ConsumerSettings) and settings.group_id:
            group = {"type": "string", "enum": [settings.group_id]}
            operation["bindings"] = {"kafka": {"groupId": group, "bindingVersion": _BINDING}}
        self._operations[f"{types.action}.{name}"] = operation

    def _message(self, types: TopicTypes) -> Schema:
        content, payload = self._described(types.value)
        _, key = self._described(types.key)
        message: Schema = {"contentType": content, "payload": payload}
        if types.title and types.topic is not None:
            message["title"] = types.title
        if types.key is not None:
            message["bindings"] = {"kafka": {"key": key, "bindingVersion": _BINDING}}
        return message

    def _described(self, given: Any) -> tuple[str, Schema]:
        """Return the content type and the schema of what a user gave as `key` or `value`."""
        if given is None:
            return _NAMED["bytes"]
        if isinstance(given, str) and given in _NAMED:
            return _NAMED[given]
        schema = self._schemas.of_class(given) if isinstance(given, type) else None
        if schema is not None:
            return "application/json", schema
        name = getattr(given, "name", None) or getattr(given, "__qualname__", type(given).__name__)
        return "application/octet-stream", {"description": f"written and read by {name}"}

    def finished(self) -> dict[str, Any]:
        """Return the whole document."""
        return {
            "asyncapi": ASYNCAPI,
            "info": self._info,
            "defaultContentType": "application/json",
            "servers": self._servers,
            "channels": self._channels,
            "operations": self._operations,
            "components": {"messages": self._messages, "schemas": self._schemas.components},
        }
