"""Somebody who acts while a test waits for the outcome."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE_S = 300.0


@contextmanager
def acting(act: Callable[[], None], patience: float = _PATIENCE_S) -> Iterator[None]:
    """Run ``act`` beside the block.

    What failed in it is the cause of what the block then waits for in vain: it is raised first.

    Args:
        act: what somebody else does.
        patience: seconds that it may take after the block.
    """
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    except BaseException as error:
        if failed:
            raise failed[0] from error
        raise
    thread.join(patience)
    assert not thread.is_alive(), f"still acting after {patience:g} s"
    if failed:
        raise failed[0]


@contextmanager
def repeatedly(act: Callable[[], object], pause_s: float) -> Iterator[None]:
    """Do what somebody else does all the time, from before the block to its end."""
    over, begun = threading.Event(), threading.Event()

    def work() -> None:
        while not over.is_set():
            act()
            begun.set()
            over.wait(pause_s)

    with acting(work):
        try:
            assert begun.wait(_PATIENCE_S)
            yield
        finally:
            over.set()
