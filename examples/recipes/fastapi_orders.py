"""A FastAPI service whose requests go into a topic. python examples/recipes/fastapi_orders.py"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from streamactors import StreamActorsError
from streamactors.broker import Cluster
from streamactors.kafka import ProducerRecord, ProducerSettings, SendProducer


class Order(BaseModel):
    item: str
    pieces: int


def service(bootstrap: str) -> FastAPI:
    # a record that the broker has not acknowledged after 5 s fails, and so does not hold up the end of the process
    settings = ProducerSettings(bootstrap, properties={"message.timeout.ms": 5_000}, close_timeout_ms=6_000)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.orders = SendProducer(settings, value=Order)
        yield
        await asyncio.to_thread(app.state.orders.close)  # writes the accepted records before the process ends

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders", status_code=201)
    async def post(order: Order) -> dict[str, int]:
        try:
            stored = await app.state.orders.send(ProducerRecord("orders", order))
        except StreamActorsError:
            raise HTTPException(503, "not stored", {"Retry-After": "1"}) from None
        return {"offset": stored.offset}

    return app


async def sixty_posts(app: FastAPI) -> None:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", limit_concurrency=1_000))
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
