"""Locks between processes: a wait that ends, and a holder that lets go."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from k2ktui.errors import TimedOut
from k2ktui.runtime.paths import locked


def test_the_wait_for_a_lock_ends_with_its_reason(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with locked(path), pytest.raises(TimedOut) as raised, locked(path, wait_s=0.0):
        raise AssertionError("two hold the lock")
    assert str(path) in raised.value.message and raised.value.hint
    with locked(path, wait_s=0.0):
        pass


def test_a_process_forked_while_a_lock_is_held_does_not_keep_it(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    context = multiprocessing.get_context("fork")
    done = context.Event()
    child = context.Process(target=done.wait, args=(300,))
    with locked(path):
        child.start()
    try:
        with locked(path, wait_s=0.0):
            assert child.is_alive()
    finally:
        done.set()
        child.join()
