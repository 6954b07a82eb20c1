"""quixstreams as its documentation begins: an application that transforms one topic into another. BOOTSTRAP SOURCE TARGET COUNT"""

import sys

from quixstreams import Application

BOOTSTRAP, SOURCE, TARGET, COUNT = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

app = Application(
    broker_address=BOOTSTRAP,
    consumer_group="quixstreams-hello",
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
)
source = app.topic(SOURCE, value_deserializer="string")
target = app.topic(TARGET, value_serializer="string")
frame = app.dataframe(source)
frame = frame.apply(lambda value: value.upper())
frame = frame.update(print)
frame = frame.to_topic(target)
app.run(count=COUNT, timeout=60.0)
