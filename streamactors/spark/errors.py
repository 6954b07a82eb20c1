"""The errors of this package.

SparkError
├── SparkSetupError      no Java, another PySpark than is needed, a kind of session that cannot work
├── RowError             a row that does not fit the schema; names the row and the field
├── CheckpointError      a checkpoint that is another graph's, in use, or incomplete; or a range that is gone from its source
└── SparkQueryFailed     the query ended with an error that is not the user function's own
"""

from __future__ import annotations

from streamactors.errors import BuildError, StreamActorsError


class SparkError(StreamActorsError):
    """Base of the errors of this package."""


class SparkSetupError(SparkError, BuildError):
    """Spark cannot be started, or cannot be used in this way."""


class RowError(SparkError, ValueError):
    """A row does not fit the schema. The message names the row, the field and the value.

    `SparkSinkSettings(dead_letters=…)` takes such rows instead. The rules are in [Spark](spark.md#how-do-i-give-a-schema)."""


class CheckpointError(SparkError):
    """This run cannot continue from the checkpoint: it is in use, incomplete, or was written for another graph, topic, cluster or schema.

    The message names both sides and the way out. [Checkpoints](spark-checkpoints.md#which-changes-may-i-make-between-two-runs) lists what may change."""


class SparkQueryFailed(SparkError):
    """The query failed inside Spark; the message begins with Spark's own."""
