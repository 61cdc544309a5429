"""Named steps at which the proofs kill or suspend the process, if a test asks for it.

| step | process | when |
|---|---|---|
| ``fencing`` | driver | it is about to raise a slot of earlier drivers |
| ``fenced`` | driver | every earlier driver is fenced, the new term is not written |
| ``begun`` | driver | the new term is written |
| ``token`` | driver | a slot's epoch is raised, its lap is not submitted |
| ``recovering`` | driver | a failed slot's epoch is raised, its positions are not read |
| ``recorded`` | driver | a record of its own is acknowledged, not committed |
| ``joined`` | worker | target partitions are in the transaction, nothing was sent to them |
| ``sent`` | both | record batches are on their way |
| ``before-state`` | worker | all record batches are acknowledged |
| ``before-commit`` | worker | mapping and positions are acknowledged too |
| ``after-commit`` | worker | the commit is acknowledged |
| ``lap-over`` | worker | the driver has not been told yet |
"""

from __future__ import annotations

import os
from pathlib import Path

# Read once: a point is passed for every request.
_DIRECTORY = os.environ.get("K2KTUI_CRASH_DIR")


def failpoint(step: str) -> None:
    """Send this process a signal if a test asks for it at this step.

    It does if the directory ``K2KTUI_CRASH_DIR`` has a file of the step's name, which holds the
    signal's number; the file goes, so that it befalls only one process.
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
