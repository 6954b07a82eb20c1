"""The controller: the single writer of the cluster metadata.

Handlers submit a command (`command.py`); `plan.py` finds the pure function that turns it into records (`plan_topics.py`,
`plan_configs.py`); `Controller` appends them through its `quorum.Quorum` to the `MetadataLog`. When they are committed, it publishes the new image to
`metadata.MetadataCache`, where requests read it."""
