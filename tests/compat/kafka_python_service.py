"""What kafka-python's integration fixtures import as `test.service`, which its source package leaves out.

With KAFKA_URI the suite is told of a broker that runs already, and this is all that it asks of one.
"""


class ExternalService:
    """A broker that somebody else started."""

    def __init__(self, host, port):
        self.host = host
        self.port = port

    def open(self):
        pass

    def close(self):
        pass

    stop = close


class SpawnedService:
    """A broker that the suite would start."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError("this suite runs against the broker at KAFKA_URI")
