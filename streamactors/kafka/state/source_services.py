"""What committing, transactions, changelogs and repartitioning do for a Kafka source: see `sources/read_plan.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from streamactors.engine.island.run import Run
from streamactors.engine.marks.marks import Key
from streamactors.kafka.committing.commit_routes import routes_of
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.sources.consumer_link import ConsumerLink
from streamactors.kafka.sources.read_plan import ReadPlan, SourceServices
from streamactors.kafka.state.changelogs.changelog_provider import ChangelogProvider
from streamactors.kafka.state.queries.query_server import serve
from streamactors.kafka.state.repartition import repartitioned
from streamactors.kafka.transactions.run_transaction import THE_TRANSACTION, transaction_of
from streamactors.windows.stage.queryable_store import QueryableStore
from streamactors.windows.stage.store_reads import stores_of
from streamactors.windows.state.changelogs import changelogs_of

if TYPE_CHECKING:
    from streamactors.kafka.sources.source_logic import ConsumerSourceLogic


class _Services:
    transaction_owner = THE_TRANSACTION
    repartitioned = staticmethod(repartitioned)

    def listen(self, run: Run, source: Any, consumer: ConsumerLink, *, in_transactions: bool = True) -> bool:
        tracker = consumer.tracker
        if tracker is None or source is None or run.only_traced:
            return False
        if consumer.commits is Commits.OFFSETS:
            routes_of(run).source(source, tracker, tracker.done_everywhere, consumer.commit)
            return False
        transaction = transaction_of(run)
        in_transaction = consumer.commits is Commits.TRANSACTION or (
            in_transactions and consumer.commits is Commits.MARKS and transaction.commits_any(frozenset((source,)))
        )
        if in_transaction:
            transaction.source(source, tracker, consumer.group_metadata, consumer.renew_membership)
        run.progress.listen(source, tracker.done_everywhere)
        return in_transaction

    def offer_changelogs(
        self, run: Run, source: Any, reader: ConsumerSourceLogic, plan: ReadPlan
    ) -> Callable[[Sequence[Key]], None]:
        changelogs = ChangelogProvider(
            plan.settings,
            run,
            plan.application or plan.settings.group_id or "",
            subscription=plan.subscription,
            bounded=plan.until_end,
            counts_done=plan.commits is Commits.MARKS,
            commits_done=plan.commits_done,
            source=reader,
        )
        changelogs_of(run).offer(source, changelogs)
        if plan.settings.state.advertise is not None:
            serve(run, plan.settings)
        return changelogs.revoking

    def open_store(self, run: Run, name: str) -> QueryableStore:
        return QueryableStore(name, stores_of(run))


SERVICES: Final[SourceServices] = _Services()
