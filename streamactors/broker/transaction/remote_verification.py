"""Asks the coordinator of a transactional id, which is another broker, whether partitions are part of its open transaction, or to add them
to it (KIP-890).

Owner: the transaction component, on the data plane's thread. The coordinator gets AddPartitionsToTxn, with `verify_only` unless it is to
add the partitions, which it does for producers of transaction.version 2. The marker of the
transaction may be written before the answer arrives. Then the answer is outdated, and the batch would open a transaction without an end. So a
marker that is written in the meantime invalidates the verification, like the verification guard of Apache Kafka. Another leader may have written
it, so a partition with a new leader epoch must be verified again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from streamactors.broker.coordinator.broker_channels import BrokerChannels
from streamactors.broker.errors import ErrorCode
from streamactors.broker.network.outgoing.channel_answer import ChannelAnswer
from streamactors.broker.replication.partition_table import PartitionTable
from streamactors.broker.runtime import Runtime
from streamactors.broker.transaction.transaction import BUMPS_EPOCH, TopicPartition
from streamactors.broker.transaction.transaction_events import SendMarkers
from streamactors.broker.transaction.transaction_messages import Errors, VerificationRequest
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.transaction")

ADD_PARTITIONS_TO_TXN: Final = (24, 5)


class _Verification:
    """A verification in progress. `spoiled` has the partitions that have got a marker since."""

    __slots__ = ("asked", "spoiled")

    def __init__(self, asked: VerificationRequest) -> None:
        self.asked = asked
        self.spoiled: set[TopicPartition] = set()


class RemoteVerification:
    """The verifications in progress, in the order in which they are answered."""

    def __init__(self, node: Runtime, partitions: PartitionTable) -> None:
        self._channels = BrokerChannels(node, "verification")
        self._partitions = partitions
        self._under_way: list[_Verification] = []

    def ask(self, coordinator: int, asked: VerificationRequest, then: Callable[[Errors], object]) -> None:
        """Ask a broker; `then` gets an error for each partition, NONE if it is part of the open transaction."""
        channel = self._channels.to(coordinator)
        if channel is None:
            then(dict.fromkeys(asked.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        verification = _Verification(asked)
        self._under_way.append(verification)
        epochs = self._leader_epochs(asked)

        def answered(answer: ChannelAnswer) -> None:
            self._under_way.remove(verification)
            errors = _errors(asked, answer)
            for where in verification.spoiled:
                # Who adds asks again: the answer may be about the transaction before.
                errors[where] = ErrorCode.CONCURRENT_TRANSACTIONS if asked.adds else ErrorCode.INVALID_TXN_STATE
            for where, epoch in self._leader_epochs(asked).items():
                if epoch != epochs[where]:
                    errors[where] = ErrorCode.NETWORK_EXCEPTION  # clients retry such a batch
            then(errors)

        channel.request(*ADD_PARTITIONS_TO_TXN, _body(asked), answered)

    def marked(self, where: TopicPartition, marker: SendMarkers) -> None:
        """Invalidate the verifications of a producer and a partition whose marker is about to be written: their answers would be outdated.

        With version 2 a marker has the epoch of the transaction after it, which a producer may have begun already. So its epoch says whether it
        ends the transaction that a partition is added to."""
        for each in self._under_way:
            asked = each.asked
            if asked.producer_id != marker.producer_id or where not in asked.partitions:
                continue
            is_before = marker.transaction_version >= BUMPS_EPOCH and marker.producer_epoch <= asked.producer_epoch
            if not (asked.adds and is_before):
                each.spoiled.add(where)

    def _leader_epochs(self, asked: VerificationRequest) -> dict[TopicPartition, int | None]:
        hosted = {where: self._partitions.get(*where) for where in asked.partitions}
        return {where: None if each is None else each.leader_epoch for where, each in hosted.items()}

    def stop(self) -> None:
        """Close the connections."""
        self._channels.close()


def _body(asked: VerificationRequest) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for where in asked.partitions:
        topics.setdefault(where.topic, []).append(where.partition)
    transaction = {
        "transactional_id": asked.transactional_id,
        "producer_id": asked.producer_id,
        "producer_epoch": asked.producer_epoch,
        "verify_only": not asked.adds,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
    return {"transactions": [transaction]}


def _errors(asked: VerificationRequest, answer: ChannelAnswer) -> dict[TopicPartition, ErrorCode]:
    if answer.error is not None:
        _log.debug("%s cannot be verified: %s", asked.transactional_id, answer.error)
        return dict.fromkeys(asked.partitions, ErrorCode.NETWORK_EXCEPTION)
    if answer.value.error_code:
        error = ErrorCode(answer.value.error_code)
        unauthorised = error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        log_limited(
            _log, logging.ERROR, error,  # each batch of each transactional producer asks
            "the coordinator of transactional id %s verifies nothing: %s%s", asked.transactional_id, error.name,
            "; this broker needs the right CLUSTER_ACTION of the cluster" if unauthorised else "",
        )  # fmt: skip
        if unauthorised:  # it is about this broker's rights, not the client's
            error = ErrorCode.INVALID_TXN_STATE
        return dict.fromkeys(asked.partitions, error)
    found = {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for topic in _topics(answer.value.results_by_transaction)
        for each in topic.results_by_partition
    }
    return {where: found.get(where, ErrorCode.UNKNOWN_SERVER_ERROR) for where in asked.partitions}


def _topics(results: Sequence[Any]) -> Sequence[Any]:
    return results[0].topic_results if results else ()
