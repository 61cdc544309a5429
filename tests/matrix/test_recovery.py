"""On old brokers: positions are recovered; before 3.0 they do not list transactional ids."""

from __future__ import annotations

import pytest

from tests.brokers.sync.test_recovery import (  # noqa: F401
    copied,
    test_moved_topics_and_producer_ids_are_recorded_again,
    test_positions_are_rebuilt_where_both_logs_prove_them,
)
from tests.brokers.sync.test_recovery import (
    test_a_run_that_is_suspended_cannot_commit_after_a_recovery as suspended_run_commits_nothing,
)
from tests.matrix import conftest
from tests.support.pipelines.copied import Copied

# To the oldest brokers, and from them.
PAIRS = conftest.PAIRS[:2]

pytestmark = pytest.mark.matrix


def test_a_run_that_is_suspended_cannot_commit_after_a_recovery(copied: Copied) -> None:  # noqa: F811
    """Its ids are among those that any run may have used."""
    suspended_run_commits_nothing(copied)
