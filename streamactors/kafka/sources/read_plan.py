"""ReadPlan: what a Kafka source reads, until when, who commits, and which services the packages above provide.

The facades make it and give it to the source stage, so that sources import nothing of windows, transactions, committing and changelogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from streamactors.engine.island.run import Run
from streamactors.engine.marks.marks import Key
from streamactors.kafka.committable import Convert
from streamactors.kafka.reading.delays import DelayedTopics
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.sources.consumer_link import ConsumerLink
from streamactors.kafka.sources.manual_offsets import OffsetsOnAssign, OnRevoke
from streamactors.kafka.subscriptions import Subscription

if TYPE_CHECKING:
    from streamactors.kafka.sources.source_logic import ConsumerSourceLogic
    from streamactors.windows.stage.queryable_store import QueryableStore


class SourceServices(Protocol):
    """What committing, transactions, changelogs and repartitioning do for a source."""

    transaction_owner: str
    """The name of a run's transaction as an owner of positions."""

    def listen(self, run: Run, source: Any, consumer: ConsumerLink, *, in_transactions: bool = True) -> bool:
        """Report to the consumer's tracker which records of `source` the run has processed, as `consumer.commits` says.

        Returns True if the transaction of the run commits the positions; with `in_transactions` False it never does."""

    def offer_changelogs(
        self, run: Run, source: Any, reader: ConsumerSourceLogic, plan: ReadPlan
    ) -> Callable[[Sequence[Key]], None]:
        """Offer changelogs to the windows downstream of a source; return what to call with partitions that are about to be revoked."""

    def open_store(self, run: Run, name: str) -> QueryableStore:
        """Return a store of a run by its name, or by that of its step, for reading from outside. Raises UnknownStore."""

    def repartitioned(
        self, input_: Any, key_of: Callable[[Any], Any], node: str, graces: Mapping[str, int], bounded: bool
    ) -> Any:
        """Return the flow that re-keys the rows of the source stage `input_`, through a topic. `graces`: of the windows after it, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What a Kafka source reads, until when, and who commits."""

    settings: ConsumerSettings
    subscription: Subscription
    services: SourceServices
    commits: Commits
    until_end: bool
    convert: Convert | None = None
    """Makes the elements of a chunk of librdkafka's messages; None: the elements are records."""
    whole: Callable[[list[Any]], Any] | None = None
    """Makes one element of a chunk of librdkafka's messages of one partition; None: an element per record."""
    offsets_on_assign: OffsetsOnAssign | None = None
    """Says where assigned partitions begin; of partitioned sources."""
    on_revoke: OnRevoke | None = None
    delayed: DelayedTopics | None = None
    """Topics whose records are not delivered before their due times; not of partitioned sources."""
    link: Callable[[], ConsumerLink] | None = None
    """Makes the link to a consumer that several sources share; None: the source has a consumer of its own."""
    creates: frozenset[str] = frozenset()
    """Topics of the subscription that the run creates when they are missing."""
    application: str | None = None
    """Names the state of the windows downstream of the source; None: the group."""

    @property
    def commits_done(self) -> bool:
        """True when the positions are committed once the sinks of the run have done the records."""
        return self.commits in (Commits.MARKS, Commits.TRANSACTION)

    @property
    def keeps_changelog(self) -> bool:
        """True when the positions are committed to the group, so that windows downstream of the source can keep changelogs beside them."""
        return self.commits_done or self.commits is Commits.OFFSETS
