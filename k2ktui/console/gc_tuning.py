"""Few pauses for collecting garbage: a full collection holds up every thread, keys among them."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

# Views are thousands of objects that live for seconds, which Python would take for a reason to look
# at all objects at every second refresh. Hardly any of them is part of a cycle.
EVERY_S = 600.0
_NEVER = 1_000_000


@contextlib.contextmanager
def collect_by_hand() -> Iterator[None]:
    """Within it, full collections are made by hand, and leave out what there is already."""
    young, middle, old = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
        gc.unfreeze()


def collect() -> None:
    """Collect all garbage; every :data:`EVERY_S` seconds is often enough."""
    gc.collect()
