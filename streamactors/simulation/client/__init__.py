"""Clients of a simulated cluster, with the methods of confluent-kafka's that `kafka/client/` calls.

`consumer.py`, `producer.py` and `admin.py` are what `factories.py` gives instead of confluent-kafka's classes. Values and errors are confluent-kafka's
own. A client asks the cluster through its `link.py`, and gets its callbacks inside `poll`. `reading/` has a consumer's partitions, `membership/` its
place in a group, `sending/` a producer's queues, `administering/` the answers to an administrator."""
