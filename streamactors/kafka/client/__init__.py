"""The clients of a broker; the only package that imports confluent-kafka.

`connection.py` makes every client and turns librdkafka's errors into `kafka/errors.py`. `consumer.py`, `producer.py` and `admin.py` are the
three clients; `runs.py` and `statistics.py` are what a consumer's poll and its statistics give."""
