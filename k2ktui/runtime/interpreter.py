"""What the program needs of the Python that runs it, whatever a shell exports for others."""

from __future__ import annotations

import os
import sys
import warnings

from k2ktui.errors import Refused

_WARNINGS = "PYTHONWARNINGS"


def require_assertions() -> None:
    """Require that Python runs assertions: kafka-python reads bytes of each response in some.

    Raises:
        Refused: it was started with ``-O`` or ``PYTHONOPTIMIZE``.
    """
    if sys.flags.optimize:
        raise Refused(
            "Python leaves assertions out (PYTHONOPTIMIZE is set, or -O), and without them the "
            "Kafka client reads no response of a broker",
            unchanged="Nothing was started or changed.",
            hint="Unset PYTHONOPTIMIZE, or start Python without -O.",
        )


def disarm_warnings() -> None:
    """Let no warning be an error, whatever ``PYTHONWARNINGS`` or ``-W`` says.

    Libraries warn in the middle of what they do, and an error there would end it. The children of
    this process get the variable without such entries.
    """
    if any(entry[0] == "error" for entry in warnings.filters):
        warnings.simplefilter("ignore")
    entries = os.environ.get(_WARNINGS, "").split(",")
    kept = [entry for entry in entries if entry and not "error".startswith(entry.split(":")[0])]
    if kept != entries and _WARNINGS in os.environ:
        os.environ[_WARNINGS] = ",".join(kept)
