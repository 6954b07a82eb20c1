"""What an administrator's client gives back: `futures.py` has its answers, `descriptions.py` groups and topics as confluent-kafka describes them."""
