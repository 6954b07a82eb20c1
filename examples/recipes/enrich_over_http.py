"""Rows with the answer of an HTTP service: limited, tried again, and put aside in the end. python examples/recipes/enrich_over_http.py"""

import sys
from typing import Any

import httpx

from streamactors import CircuitBreaker, Keep, RestartSettings, RunnableGraph, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.windows import Record


def graph(bootstrap: str, client: httpx.AsyncClient, breaker: CircuitBreaker) -> RunnableGraph[Any]:
    async def with_price(order: Record) -> Record:
        answer = await client.get(f"/prices/{order.value['item']}")
        answer.raise_for_status()
        return order.replace(value={**order.value, **answer.json()})

    settings, writing = ConsumerSettings(bootstrap, "priced", "earliest"), ProducerSettings(bootstrap)
    orders = Consumer.records(settings, Subscriptions.topics("orders"), key="string", value="json", until="end")
    again = RestartSettings("50ms", "5s", max_restarts=10, restart_on=worth_another_try)
    unpriced = Producer.dead_letter_sink(writing, "orders-unpriced", key="string", value="json")
    priced = orders.throttle(100, per="1s").map_async(
        20, with_price, timeout="2s", retry=again, breaker=breaker, dead_letters=unpriced
    )
    return priced.map(lambda order: order.value).to_mat(Sink.to_list(), Keep.both)


def worth_another_try(error: BaseException) -> bool:
    """An answer such as 404 stays the same; 503 and a timeout do not."""
    return not (isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500)


def main(cluster: Cluster, service: str) -> None:
    for topic in ("orders", "orders-unpriced"):
        cluster.create_topic(topic)
    orders = [ProducerRecord("orders", {"item": item}, "anna") for item in ("tea", "jam", "yak", "rye")]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    Source.from_iterable(orders).run_with(writer).result(30)

    breaker = CircuitBreaker("prices", max_failures=5, reset_timeout="200ms", fails_on=worth_another_try)
    client = httpx.AsyncClient(base_url=service)
    control, done = graph(cluster.bootstrap_servers, client, breaker).run()
    print(*done.result(30), sep="\n")
    control.is_shutdown.result(30)  # the dead letter is stored, and all offsets are committed
    reading = ConsumerSettings(cluster.bootstrap_servers, "reader", "earliest")
    for letter in Consumer.plain_source(
        reading, Subscriptions.topics("orders-unpriced"), until="end"
    ).run_iter():
        print("aside:", letter.value, str(dict(letter.headers)["dead-letter.error"])[:36])


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo, sys.argv[1])
