"""Failpoints: named steps at which fault tests kill or suspend the process.

| step | process | when |
|---|---|---|
| ``fencing`` | driver | about to bump the epoch of an earlier driver's slot |
| ``fenced`` | driver | every earlier driver is fenced, the new term is not yet written |
| ``begun`` | driver | the new term is written |
| ``token`` | driver | a slot's epoch is bumped, its lap is not yet submitted |
| ``recovering`` | driver | a failed slot's epoch is bumped, its positions are not yet read |
| ``recorded`` | driver | the driver's own records are acknowledged but not committed |
| ``moved`` | mover | moved topics are committed, no lock or id of a slot is bumped yet |
| ``reassigning`` | driver | the owners of shared slots are about to be written |
| ``reassigned`` | driver | they are acknowledged |
| ``joined`` | worker | target partitions are in the transaction, nothing is sent to them yet |
| ``sent`` | both | record batches are in flight |
| ``before-state`` | worker | all record batches are acknowledged |
| ``before-commit`` | worker | mapping ranges and positions are acknowledged too |
| ``after-commit`` | worker | the commit is acknowledged |
| ``lap-over`` | worker | the lap has ended, its result is not yet returned to the driver |
"""

from __future__ import annotations

import os
from pathlib import Path

# Read only once, because every request passes a failpoint.
_DIRECTORY = os.environ.get("K2KTUI_CRASH_DIR")


def failpoint(step: str) -> None:
    """Send this process a signal if a test requests it for this step.

    A request is a file named after the step in the directory ``K2KTUI_CRASH_DIR``, containing the
    signal's number. The file is deleted first, so that only one process is affected.
    """
    if not _DIRECTORY:
        return
    file = Path(_DIRECTORY, step)
    try:
        number = int(file.read_text())
        file.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), number)
