"""On old brokers: tests of other directories, which have the newest version there.

Each is of something that brokers take part in: runs that share a pipeline by one file and one name,
what is known of a name, and control topics made by hand.
"""

from __future__ import annotations

import pytest

from tests.brokers.ownership.test_shared_files import (  # noqa: F401
    make_file,
    runs,
    test_a_file_that_is_rolled_out_copies_what_only_it_selects,
    test_a_standby_of_another_name_is_refused,
    test_another_pipeline_with_the_same_commit_group_is_refused_while_a_run_lives,
    test_what_check_says_of_a_file,
    topics,
)
from tests.brokers.replication.test_preflight import (  # noqa: F401
    test_topics_made_with_the_commands_of_the_check_are_enough,
)
from tests.brokers.sync.test_never_ran import (  # noqa: F401
    test_a_mistyped_name,
    test_a_pipeline_that_never_ran,
)
from tests.matrix import conftest
from tests.spark.sync.test_mapping_application import (  # noqa: F401
    copied,
    test_the_pipelines_file_and_its_own_in_layers,
    topic,
)

# Between old and new, and between old ones: the others would take two more minutes.
PAIRS = conftest.PAIRS[:3]

pytestmark = pytest.mark.matrix
