"""Streams for users of PySpark: DataFrames through flows (`on_spark.py`), and DataFrames as sources (`source.py`).

`elements.py` says what the rows of a DataFrame are as elements of a stream."""
