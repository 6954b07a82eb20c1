"""Windows over Apache Kafka: their changelogs, transactions, restarts and repartitioning, by the tests of `tests/kafka`."""

from __future__ import annotations

import pytest

from tests.differential.apache_kafka import broker as apache
from tests.differential.test_connector import cluster  # noqa: F401
from tests.kafka._windows import windows_producer, windows_settings  # noqa: F401
from tests.kafka.conftest import (  # noqa: F401
    committed,
    group_protocol,
    pytest_generate_tests,
    read_all,
    system,
    wait_for,
)
from tests.kafka.test_changelog import (  # noqa: F401
    test_a_run_that_fails_again_and_again_gives_the_rows_of_one_that_did_not,
    test_K_14_K_16_a_cut_waits_for_a_plain_sink_behind_the_windows,
    test_K_15_the_changelog_keeps_each_open_window_and_the_stream_time,
    test_K_17_without_a_transactional_sink_the_changelog_is_written_before_positions_are_committed,
    test_K_18_an_open_transaction_in_a_changelog_is_waited_for,
    test_K_18_the_former_owner_is_fenced_before_its_state_is_read,
    test_K_19_partitions_that_move_between_two_members_take_their_state_along,
    test_R_5_a_restart_changes_nothing_what_was_late_stays_late,
    test_reading_a_changelog_gives_the_newest_of_each_key_up_to_the_end_of_that_moment,
    test_silence_of_a_partition_closes_its_windows,
)
from tests.kafka.test_changelog_crash import (  # noqa: F401
    test_windows_killed_in_the_middle_give_each_final_row_once_and_right,
)
from tests.kafka.test_changelog_refusals import test_a_changelog_of_another_partition_count_is_refused  # noqa: F401
from tests.kafka.test_repartition import (  # noqa: F401
    test_a_run_that_fails_writes_each_row_under_its_new_key_once,
    test_a_stop_leaves_windows_open_and_the_next_run_goes_on,
    test_one_new_key_of_several_partitions_is_one_count,
)

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]
