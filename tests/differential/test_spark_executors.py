"""Graphs on Spark's executors over Apache Kafka, by the tests of `tests/spark/executors`: tasks in plain processes with kills, and queries in Spark."""

from __future__ import annotations

import pytest

from tests.differential.apache_kafka import broker as apache
from tests.differential.test_connector import cluster  # noqa: F401
from tests.spark.executors.conftest import spark, system  # noqa: F401
from tests.spark.executors.test_attempts import (  # noqa: F401
    test_tasks_whose_first_attempts_fail_write_their_ranges_once,
)
from tests.spark.executors.test_carried import test_windows_move_to_executors_and_back_and_there_again  # noqa: F401
from tests.spark.executors.test_in_spark import (  # noqa: F401
    test_a_topic_and_its_late_rows_are_written_by_the_tasks,
    test_windows_with_late_rows_run_on_executors_batch_by_batch_and_go_on_after_the_end,
)
from tests.spark.executors.test_key_by import (  # noqa: F401
    test_rows_under_new_keys_give_the_results_and_late_rows_of_one_process,
)
from tests.spark.executors.test_kills import (  # noqa: F401
    test_a_hundred_kills_of_tasks_in_plain_processes,
    test_a_killed_driver_goes_on_with_the_same_batch,
)
from tests.spark.executors.test_program import (  # noqa: F401
    test_every_kind_of_window_with_late_rows_and_steps_on_both_sides,
    test_random_graphs_on_random_rows,
)
from tests.spark.executors.test_topic_end import (  # noqa: F401
    test_a_checkpoint_and_an_output_that_do_not_fit_are_an_error,
    test_each_range_is_in_the_topic_once_whatever_attempts_there_were,
    test_of_attempts_at_the_same_moment_one_commits_and_the_others_fail_or_find_it_done,
)

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(1_800),
]
