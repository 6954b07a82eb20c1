"""A producer that a fatal error has ended names the reason, whatever call the user hears it from. librdkafka itself often says "Local: Fatal error"."""

from __future__ import annotations

import confluent_kafka as ck
import pytest

from streamactors.kafka import ProducerRecord, ProducerSettings
from streamactors.kafka.client.producer import StreamProducer
from streamactors.kafka.errors import ProducerFailed

FATAL = ck.KafkaError._FATAL
CODES = [ck.KafkaError.INVALID_PRODUCER_EPOCH, ck.KafkaError.PRODUCER_FENCED, ck.KafkaError._FENCED]
RECORD = ProducerRecord("t", b"v")


class Ended:
    """A client after a fatal error whose callback is still on its way: it refuses records without a reason, and names it in transactional calls.

    `says`: the calls that say no more than that there was a fatal error."""

    def __init__(self, code, says=()):
        self._code = code
        self._says = says

    def __len__(self):
        return 0

    def poll(self, _):
        return 0

    def flush(self, _):
        return 0

    def purge(self, **_):
        pass

    def produce(self, *_, **__):
        raise ck.KafkaException(ck.KafkaError(FATAL, "Unable to produce message: Local: Fatal error"))

    def _refuse(self, name):
        if name in self._says:
            raise ck.KafkaException(ck.KafkaError(FATAL, "Local: Fatal error", fatal=True))
        raise ck.KafkaException(ck.KafkaError(self._code, "the producer was fenced", fatal=True))

    def begin_transaction(self):
        self._refuse("begin")

    def commit_transaction(self, _):
        self._refuse("commit")

    def abort_transaction(self, _):
        self._refuse("abort")

    def send_offsets_to_transaction(self, *_):
        self._refuse("offsets")


@pytest.fixture
def ended(producer_settings):
    """Return a function that makes a producer with such a client."""
    made = []

    def make(code, says=(), transactional_id="mine"):
        producer = StreamProducer(
            ProducerSettings(producer_settings.bootstrap_servers, transactional_id=transactional_id)
        )
        made.append((producer, producer._client))
        producer._client = Ended(code, says)
        producer.produce = producer._client.produce
        return producer

    yield make
    for producer, _ in made:
        producer.close(drop=True).result(30)


@pytest.mark.parametrize("code", CODES)
def test_a_refused_record_names_who_has_the_id_now(ended, code):
    # The fatal error's callback came after the refused record in 2 of 8 runs: the error was "Unable to produce message: Local: Fatal error".
    producer = ended(code)
    with pytest.raises(
        ProducerFailed, match=r"transactional id mine: the producer was fenced .*a newer producer has this id"
    ):
        producer.send(RECORD, {}.setdefault)
    refused = []
    assert producer.produce_all([RECORD], [{}.setdefault], lambda _, error: refused.append(error)) == 1
    assert "a newer producer has this id" in str(refused[0])
    with pytest.raises(ProducerFailed, match="a newer producer has this id"):
        producer.call(producer.send_all, [RECORD], {}.setdefault).result(30)


@pytest.mark.parametrize("code", CODES)
def test_the_report_of_a_record_names_it(ended, code):
    error = ended(code).not_delivered(RECORD, ck.KafkaError(FATAL, "Local: Fatal error"))
    assert isinstance(error, ProducerFailed)
    assert "a newer producer has this id" in str(error)


@pytest.mark.parametrize(
    ("says", "call"),
    [
        ("commit", lambda producer: producer.commit(1)),
        ("abort", lambda producer: producer.abort(1)),
        ("offsets", lambda producer: producer.send_offsets({("t", 0): 1}, None, 1)),
    ],
)
def test_each_transactional_call_names_it(ended, says, call):
    producer = ended(ck.KafkaError._FENCED, [says])
    with pytest.raises(ProducerFailed, match=r"the producer was fenced .*a newer producer has this id"):
        producer.call(call, producer).result(30)


def test_an_idempotent_producer_names_the_code_of_the_fatal_error(ended):
    producer = ended(FATAL, transactional_id=None)

    def poll(_):
        if producer._connection.fatal is None:
            gap = "delivery reports lost"
            producer._connection._on_error(ck.KafkaError(ck.KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, gap, fatal=True))
        return 0

    producer._client.poll = poll
    with pytest.raises(ProducerFailed, match=r"delivery reports lost \(OUT_OF_ORDER_SEQUENCE_NUMBER\)"):
        producer.send(RECORD, {}.setdefault)


def test_a_producer_whose_id_was_taken_says_so_each_time(cluster):
    cluster.create_topic("taken")
    settings = ProducerSettings(cluster.bootstrap_servers, transactional_id="taken")
    first, second = StreamProducer(settings), StreamProducer(settings)
    try:
        first.start().result(30)
        first.call(first.begin).result(30)
        second.start().result(30)
        for _ in range(3):  # with the first one the broker refuses the producer; later ones are refused by librdkafka
            slot = {}
            with pytest.raises(ProducerFailed, match="newer"):
                first.send(ProducerRecord("taken", b"v"), slot.setdefault)
                first.call(first.commit, 10).result(30)
    finally:
        first.close(drop=True).result(30)
        second.close(drop=True).result(30)


def test_a_producer_that_drops_its_records_closes_after_a_fatal_error(cluster):
    # librdkafka raises a fatal error once, in any call: it was raised by the close if no other call came before
    class Fatal:
        def fatal(self):
            return True

        def code(self):
            return ck.KafkaError._FENCED

        def name(self):
            return "_FENCED"

        def str(self):
            return "fenced"

    class Ended:
        def __init__(self):
            self.purged = False

        def __len__(self):
            return 0

        def purge(self, **_):
            self.purged = True

        def poll(self, _):
            raise ck.KafkaException(Fatal())

    producer = StreamProducer(ProducerSettings(cluster.bootstrap_servers))
    producer.start().result(30)
    producer._client = client = Ended()
    producer.close(drop=True).result(30)
    assert client.purged
