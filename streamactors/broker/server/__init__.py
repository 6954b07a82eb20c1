"""The server: makes one broker from its parts, starts it and stops it.

`server.py` makes every node. Its part in the cluster, which is the controller, the membership and the replication, comes from `cluster_part.py`:
`quorum_of_one.py` if it is the only voter, else `quorum_of_several.py`. `metadata_publisher.py`
makes the broker follow each new image of the metadata, and `folder_assignments.py` tells the controller which data folder has which replica."""
