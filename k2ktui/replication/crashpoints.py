"""Named steps at which the proofs kill the process; nothing happens unless a test asks for it.

| step | process | when |
|---|---|---|
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
import signal

_VARIABLE = "K2KTUI_CRASH_DIR"


def crash_point(step: str) -> None:
    """Kill this process with SIGKILL if a test asks for it at this step.

    It does if the directory ``K2KTUI_CRASH_DIR`` has a file of the step's name; the file goes, so
    that only one process dies of it.
    """
    directory = os.environ.get(_VARIABLE)
    if not directory:
        return
    try:
        os.unlink(os.path.join(directory, step))
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
