"""Fewer garbage collection pauses: a full collection stops every thread and delays key presses."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

# Views consist of thousands of short-lived objects. With the default thresholds, these trigger a
# full collection at every second refresh, although hardly any of them are part of a cycle.
EVERY_S = 600.0
_NEVER = 1_000_000


@contextlib.contextmanager
def collect_by_hand() -> Iterator[None]:
    """Disable automatic full collections within the context, and exclude existing objects."""
    young, middle, old = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


def collect() -> None:
    """Run a full collection; once every :data:`EVERY_S` seconds is enough."""
    gc.collect()
