"""A source that may be lost; drills that wait less between two readings."""

from tests.support.drill.fixtures import brief_samples, lost

__all__ = ["brief_samples", "lost"]
