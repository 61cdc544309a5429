"""A source that may be lost."""

from tests.support.drill.fixtures import lost

__all__ = ["lost"]
