"""The first voters of a metadata log, from the options of the storage command.

Owner: `streamactors storage format`. Checks: those of Apache Kafka's storage tool."""

from __future__ import annotations

from streamactors.broker.config.broker_config import BrokerConfig
from streamactors.broker.config.listeners import controller_spec
from streamactors.broker.controller.rules.registration import new_topic_id
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.quorum.voter_set import Voter, VoterEndpoint, VoterSet, parse_voters, voter_set

_ANY_LISTENER = "CONTROLLER"


def first_voters(config: BrokerConfig, node_id: int, named: str | None) -> VoterSet:
    """Return the voters of the string `id@host:port:directory,…`; by default this node alone, at its listener for controllers.

    Raises BrokerStartError."""
    if config.controller_quorum_voters:
        raise BrokerStartError(
            f"controller.quorum.voters={','.join(config.controller_quorum_voters)} names the voters already; name the controllers with "
            "controller.quorum.bootstrap.servers instead, or leave --standalone and --initial-controllers out"
        )
    if named is not None:
        listener = (config.controller_listener_names or _ANY_LISTENER).partition(",")[0].strip()
        try:
            return parse_voters(named, listener)
        except ValueError as error:
            raise BrokerStartError(f"--initial-controllers {error}") from error
    if config.is_member:
        raise BrokerStartError(
            "--standalone is for a controller, and process.roles=broker; leave --standalone out, or add the role controller"
        )
    spec = controller_spec(config)
    if spec is None or not spec.port:
        raise BrokerStartError(
            "--standalone needs the address of this controller; give --config FILE with controller.listener.names, and with that listener "
            "and its port in listeners"
        )
    endpoint = VoterEndpoint(spec.name, spec.advertised_host, spec.advertised_port)
    return voter_set([Voter(node_id, new_topic_id(), (endpoint,))])
