"""A topic as server-sent events, with an end that closes open browsers. python examples/recipes/topic_to_browser.py"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from streamactors import BroadcastHub, Keep, KillSwitches, ServerSentEvent, SharedKillSwitch, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerRecord,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)


def event(record: ConsumerRecord) -> ServerSentEvent:
    return ServerSentEvent(record.value.decode(), event="price", id=str(record.offset))


def service(bootstrap: str, browsers: SharedKillSwitch) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        new = Consumer.plain_source(ConsumerSettings(bootstrap), Subscriptions.assignment(("prices", 0)))
        control, app.state.prices = new.to_mat(BroadcastHub.sink(256), Keep.both).run()  # one consumer for all
        yield
        await control.shutdown()

    app = FastAPI(lifespan=lifespan)

    @app.get("/prices")
    async def prices() -> StreamingResponse:
        newest = app.state.prices.buffer(64, "drop_head").via(
            browsers.flow()
        )  # a slow browser misses old events
        stream = newest.map(event).format_server_sent_events().run_async_iter()
        return StreamingResponse(stream, media_type="text/event-stream")

    return app


class Server(uvicorn.Server):
    browsers: SharedKillSwitch

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.browsers.shutdown()  # uvicorn waits for open responses, and only then ends the lifespan
        super().handle_exit(sig, frame)


async def serve_and_read(bootstrap: str) -> None:
    browsers = KillSwitches.shared("browsers")
    server = Server(uvicorn.Config(service(bootstrap, browsers), port=0, log_level="warning"))
    server.browsers = browsers
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    writing = Producer.plain_sink(ProducerSettings(bootstrap))
    ticks = Source.tick("50ms", "50ms", ProducerRecord("prices", '{"tea": 3}')).to(writing).run()
    async with (
        httpx.AsyncClient() as client,
        client.stream("GET", f"http://127.0.0.1:{port}/prices") as response,
    ):
        lines = response.aiter_lines()
        print(await anext(lines))  # then come its id and its data
        browsers.shutdown()  # these two lines are what a signal does, by handle_exit
        server.should_exit = True
        async for _ in lines:  # raises if the connection breaks within the response
            pass
        print("the response has ended")
    ticks.cancel()
    await serving


def main(cluster: Cluster) -> None:
    cluster.create_topic("prices")
    asyncio.run(serve_and_read(cluster.bootstrap_servers))


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
