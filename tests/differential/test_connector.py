"""The connector's own tests once more, over Apache Kafka: what holds on this broker is no accident of this broker.

The tests are those of `tests/kafka`; here stand only the broker they run on and the choice."""

from __future__ import annotations

import pytest

from tests.differential.apache_kafka import broker as apache
from tests.kafka._members import over_apache
from tests.kafka.conftest import (  # noqa: F401
    commits,
    committed,
    group_protocol,
    producer_settings,
    pytest_generate_tests,
    read_all,
    settings,
    system,
    topic_with,
    wait_for,
)
from tests.kafka.test_acceptance_commits import (  # noqa: F401
    test_47_a_hundred_commits_at_once_are_few_requests,
    test_48_a_batch_waits_for_its_size_its_interval_or_the_end,
    test_49_an_offset_of_a_partition_that_is_gone_is_acknowledged_and_not_sent,
    test_50_after_stop_the_stream_completes_and_commits_still_work_until_the_run_is_over,
)
from tests.kafka.test_acceptance_copies import test_55_a_copy_that_is_ended_at_random_is_exact  # noqa: F401
from tests.kafka.test_acceptance_producers import (  # noqa: F401
    test_52_nothing_is_committed_behind_a_record_that_could_not_be_written,
)
from tests.kafka.test_acceptance_rebalances import (  # noqa: F401
    test_44_what_was_buffered_of_a_partition_that_moves_is_delivered_by_its_new_owner_alone,
    test_45_a_partition_regained_delivers_what_is_buffered_when_a_third_member_takes_nothing,
)
from tests.kafka.test_heart import test_a_slow_sink_pauses_partitions_and_a_kill_loses_nothing  # noqa: F401
from tests.kafka.test_killed_graphs import (  # noqa: F401
    test_every_record_reaches_every_sink_however_the_graph_is_ended,
    topics,
)
from tests.kafka.test_liveness import (  # noqa: F401
    test_a_bounded_read_goes_on_when_its_member_was_thrown_out,
    test_a_commit_beside_members_of_the_group_is_refused_at_once,
    test_a_member_that_was_thrown_out_commits_nothing_for_what_it_lost_and_goes_on,
    test_a_system_that_is_shut_down_commits_what_is_done_and_leaves_the_group,
    test_what_is_wanted_in_addition_is_asked_for_when_the_first_part_has_come,
)
from tests.kafka.test_marks_by_rule import (  # noqa: F401
    test_K_1_a_mark_stands_behind_all_it_covers_and_before_all_it_does_not,
    test_K_5_a_marker_of_a_transaction_at_the_end_is_part_of_the_range,
    test_K_5_the_end_is_the_last_stable_offset_and_an_empty_range_ends_at_once,
)
from tests.kafka.test_rebalances import (  # noqa: F401
    test_three_members_come_and_go_under_load_and_nothing_comes_twice_or_out_of_order,
)
from tests.kafka.test_transactional import (  # noqa: F401
    test_a_copy_killed_at_random_writes_everything_exactly_once_and_in_order,
    test_a_second_producer_of_the_same_id_fences_the_first,
    test_K_14_a_cut_waits_for_the_other_sinks_of_the_run,
    test_K_16_two_sinks_of_a_run_commit_together,
    transactional,
)

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, group_protocol):  # noqa: F811
    yield from over_apache(tmp_path_factory)
