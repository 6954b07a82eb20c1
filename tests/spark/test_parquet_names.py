"""The names of a table's folders are columns of it: a column of the user's with such a name would be hidden from every reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamactors import Keep, Source
from streamactors.errors import BuildError
from streamactors.spark import SparkSink
from streamactors.spark.sink.parquet import check_names

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("name", ["query_id", "epoch_id", "Query_ID", "EPOCH_ID"])
def test_a_column_that_a_folder_would_hide_is_refused(name: str) -> None:
    with pytest.raises(BuildError, match=f"the schema: column '{name}' has the name of one of the table's own columns"):
        check_names("the schema", ["n", name])
    check_names("the schema", ["n", f"my_{name}", f"{name}_"])


def test_a_column_that_transform_adds_is_refused_before_anything_is_written(spark: Any, tmp_path: Path) -> None:
    sink = SparkSink.parquet(
        spark,
        tmp_path / "t",
        "n long",
        tmp_path / "ck",
        transform=lambda df, epoch: df.withColumn("Epoch_Id", df.n),
    )
    query = Source.from_iterable([(1,)]).to_mat(sink, Keep.right).run()
    with pytest.raises(BuildError, match="the DataFrame that transform returned: column 'Epoch_Id' has the name"):
        query.await_termination(300)
    assert not list(tmp_path.glob("t/**/*.parquet"))
