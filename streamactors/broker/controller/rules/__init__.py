"""The rules of the controller: a command and the image of the metadata become records. Pure.

`plan.py` finds the rule of a command: topics, partitions, settings, quotas, security, tokens. `election_rules.py` and
`reassignment_rules.py` say who leads a partition and how its replicas move."""
