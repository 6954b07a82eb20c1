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
    """A row that does not fit the schema."""


class CheckpointError(SparkError):
    """A checkpoint from which this run cannot continue."""


class SparkQueryFailed(SparkError):
    """The query failed inside Spark; the message begins with Spark's own."""
