"""A FastAPI service whose requests go into a topic. python examples/recipes/fastapi_orders.py"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from streamactors import BufferOverflow, Keep, RestartFlow, RestartSettings, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import Producer, ProducerMessage, ProducerRecord, ProducerSettings


class Order(BaseModel):
    item: str
    pieces: int


def service(bootstrap: str) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        settings = ProducerSettings(bootstrap)
        again = RestartSettings("200ms", "10s")
        writer = RestartFlow.on_failures_with_backoff(again, lambda: Producer.flexi_flow(settings, value=Order))
        answer = Sink.foreach(
            lambda result: loop.call_soon_threadsafe(result.pass_through.set_result, result.metadata.offset)
        )
        waiting = Source.queue_with_backpressure(16, max_concurrent_offers=1_000)
        app.state.queue, written = waiting.via(writer).to_mat(answer, Keep.both).run()
        yield
        app.state.queue.complete()  # what was accepted is written before the process ends
        await written

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders", status_code=201)
    async def post(order: Order) -> dict[str, int]:
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(10):
                await app.state.queue.offer(ProducerMessage.message(ProducerRecord("orders", order), stored))
                return {"offset": await stored}
        except (BufferOverflow, TimeoutError):
            raise HTTPException(503, "too busy", {"Retry-After": "1"}) from None

    return app


async def sixty_posts(app: FastAPI) -> None:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        orders = [client.post("/orders", json={"item": "tea", "pieces": n}) for n in range(60)]
        answers = await asyncio.gather(*orders)
    print(Counter(answer.status_code for answer in answers))
    print("stored at", len({answer.json()["offset"] for answer in answers}), "different offsets")
    server.should_exit = True
    await serving


def main(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    asyncio.run(sixty_posts(service(cluster.bootstrap_servers)))


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
