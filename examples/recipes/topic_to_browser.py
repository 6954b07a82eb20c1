"""A topic as server-sent events, with an end that closes open browsers. python examples/recipes/topic_to_browser.py"""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

from streamactors import (
    BroadcastHub,
    Keep,
    KillSwitches,
    RestartSettings,
    RestartSource,
    ServerSentEvent,
    Sink,
    Source,
)
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)


def service() -> FastAPI:
    settings = ConsumerSettings(os.environ["BOOTSTRAP"])
    again, browsers = RestartSettings("200ms", "10s"), KillSwitches.shared("browsers")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        new = RestartSource.on_failures_with_backoff(
            again, lambda: Consumer.plain_source(settings, Subscriptions.assignment(("prices", 0)))
        ).via_mat(KillSwitches.single(), Keep.right)
        consumer, app.state.prices = new.to_mat(BroadcastHub.sink(256), Keep.both).run()  # one consumer for all
        app.state.read = app.state.prices.run_with(Sink.ignore())  # old events wait for no browser
        browsers.shutdown_at_signals()  # uvicorn waits for open responses before it ends the lifespan
        yield
        consumer.shutdown()
        await asyncio.wait([asyncio.ensure_future(app.state.read)], timeout=5)

    app = FastAPI(lifespan=lifespan)

    @app.get("/prices")
    async def prices() -> StreamingResponse:
        if app.state.read.done():
            raise HTTPException(503, "no prices now", {"Retry-After": "5"})
        newest = app.state.prices.buffer(64, "drop_head").via(
            browsers.flow()
        )  # a slow browser misses old events
        events = newest.map(
            lambda each: ServerSentEvent(each.value.decode(), event="price", id=str(each.offset))
        )
        stream = events.format_server_sent_events().run_async_iter()
        return StreamingResponse(stream, media_type="text/event-stream")

    return app


def main(cluster: Cluster) -> None:
    cluster.create_topic("prices")
    here = f"--factory topic_to_browser:service --port 0 --no-access-log --app-dir {Path(__file__).parent}"
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", *here.split()],
        env={**os.environ, "BOOTSTRAP": cluster.bootstrap_servers}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stderr is not None
    address = next(found[0] for line in server.stderr if (found := re.search(r"http://127.0.0.1:\d+", line)))
    writing = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    ticks = Source.tick("50ms", "50ms", ProducerRecord("prices", '{"tea": 3}')).to(writing).run()
    with httpx.stream("GET", f"{address}/prices", timeout=30) as response:
        lines = response.iter_lines()
        print(next(lines))  # then come its id and its data
        server.terminate()
        list(lines)  # raises if the connection breaks within the response
    ticks.cancel()
    print("clean" if "Traceback" not in server.communicate(timeout=30)[1] else "not clean")


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
