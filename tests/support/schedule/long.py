"""Which tests are not fast ones."""

from __future__ import annotations

import pytest

LONG = ("slow", "proof", "matrix")


def is_long(item: pytest.Item) -> bool:
    """Return whether a test is not one of the fast ones."""
    return any(item.get_closest_marker(name) for name in LONG)
