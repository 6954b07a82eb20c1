"""The controller: the single writer of the cluster metadata.

Handlers submit a command (`command.py`); `plan.py` finds the pure function that turns it into records (`plan_topics.py`,
`plan_configs.py`); `Controller` appends them to the `MetadataLog` and publishes the new image to
`metadata.MetadataCache`, where requests read it."""
