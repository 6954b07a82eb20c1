"""The server: makes one broker from its parts, starts it and stops it.

`server.py` makes every node. A broker whose controllers are other processes gets its parts from `joining.py`, a node that is one of
several controllers from `voting.py`, and a node that is the only controller of other brokers from `leading.py`. `metadata_publisher.py`
makes the broker follow each new image of the metadata, and `folder_assignments.py` tells the controller which data folder has which replica."""
