"""faust-streaming as its documentation begins: an agent on a topic, and a table that counts. BOOTSTRAP TOPIC COUNT FOLDER"""

import os
import signal
import sys

import faust

BOOTSTRAP, TOPIC, COUNT, FOLDER = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]

app = faust.App(
    "faust-hello",
    broker=f"aiokafka://{BOOTSTRAP}",
    value_serializer="raw",
    topic_partitions=2,
    topic_replication_factor=1,
    web_enabled=False,
    datadir=FOLDER,
)
greetings = app.topic(TOPIC, value_type=bytes, value_serializer="raw")
counts = app.Table("counts", default=int, partitions=2)
seen = 0


@app.agent(greetings)
async def greet(stream) -> None:
    global seen
    async for value in stream:
        counts["all"] += 1  # kept in a changelog topic
        print(value.decode(), file=sys.__stdout__, flush=True)  # the worker takes sys.stdout for its log
        seen += 1
        if seen == COUNT:
            print("counted", counts["all"], file=sys.__stdout__, flush=True)
            os.kill(os.getpid(), signal.SIGTERM)  # a worker stops in order then


if __name__ == "__main__":
    sys.argv = ["faust_hello", "worker", "--loglevel", "warn", "--without-web"]
    app.main()
