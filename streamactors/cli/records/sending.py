"""Sending the records of `produce`: queued as fast as there is room, counted when the broker has stored them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from streamactors.cli.bootstrap import producer_settings
from streamactors.cli.texts import counted

if TYPE_CHECKING:
    from streamactors.kafka.producer_record import ProducerRecord

NEW_TOPIC_MS: Final = 10_000
"""How long the broker may not know a topic that was just created."""
FULL_S: Final = 0.1


def before(delivered: int) -> str:
    """Return how many records were delivered before an error, as part of its sentence."""
    return f"{counted(delivered, 'record')} {'was' if delivered == 1 else 'were'} delivered before"


class RecordSender:
    """Sends records to a topic and counts the acknowledged ones. Raises NoBroker unless a broker answers."""

    def __init__(self, bootstrap: str, compression: str, acks: str) -> None:
        from streamactors.kafka.client.traced_producer import producer_of

        self._delivered = 0
        self._failure: BaseException | None = None
        self._room = threading.Event()
        settings = producer_settings(bootstrap)
        defaults = {
            "compression.type": compression,
            "acks": acks,
            "enable.idempotence": acks == "all",
            "linger.ms": 20,
            "topic.metadata.propagation.max.ms": NEW_TOPIC_MS,
        }
        self._client = producer_of(settings.with_properties({**defaults, **settings.properties}))
        self._client.listen(self._room.set)
        try:
            self._client.start().result()
        except BaseException:
            self.close()
            raise

    def send(self, record: ProducerRecord) -> None:
        """Queue a record; wait while the queue is full. Raises RecordError when a record was not delivered."""
        from streamactors.kafka.errors import RecordError

        while True:
            self._check()
            self._room.clear()
            try:
                self._client.send(record, self._report)
            except BufferError:
                self._room.wait(FULL_S)
                continue
            except RecordError as error:
                raise RecordError(f"{error} ({before(self.finish())})") from None
            self._client.wake()
            return

    @property
    def delivered(self) -> int:
        """The number of records that the broker has acknowledged."""
        return self._delivered

    def finish(self) -> int:
        """Wait for the acknowledgement of every record; return their number. Raises RecordError."""
        self._client.call(self._client.flush).result()
        self._check()
        return self._delivered

    def close(self) -> None:
        """Disconnect; drop what was not sent."""
        self._client.close(drop=True).result()

    def _report(self, error: Any, message: Any) -> None:
        from streamactors.kafka.writing.deliveries import as_record

        if error is None:
            self._delivered += 1
        elif self._failure is None:
            self._failure = self._client.not_delivered(as_record(message), error)

    def _check(self) -> None:
        from streamactors.kafka.errors import RecordError

        if self._failure is not None:
            raise RecordError(f"{self._failure} ({before(self._delivered)})")
