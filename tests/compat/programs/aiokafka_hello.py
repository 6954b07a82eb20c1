"""aiokafka as its documentation begins: a producer, and a consumer in a group that commits. BOOTSTRAP TOPIC COUNT"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

BOOTSTRAP, TOPIC, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])


async def send() -> None:
    producer = AIOKafkaProducer(bootstrap_servers=BOOTSTRAP)
    await producer.start()
    try:
        for number in range(COUNT):
            await producer.send_and_wait(TOPIC, b"hello %d" % number)
    finally:
        await producer.stop()


async def consume() -> None:
    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=BOOTSTRAP, group_id="aiokafka-hello", auto_offset_reset="earliest"
    )
    await consumer.start()
    left = COUNT
    try:
        async for message in consumer:
            print(message.value.decode())
            left -= 1
            if not left:
                break
    finally:
        await consumer.stop()


asyncio.run(send())
asyncio.run(consume())
