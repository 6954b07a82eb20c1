"""Share groups on the wire (KIP-932), which librdkafka does not have: `share_requests.py` asks the coordinator and the brokers, `share_records.py` reads
the records of an answer, `protocol.py` says what is asked and answered."""
