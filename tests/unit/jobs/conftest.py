"""Every test of jobs has a state directory of its own."""

from tests.support.jobs.fixtures import state

__all__ = ["state"]
