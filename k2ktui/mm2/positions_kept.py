"""What a change of positions leaves behind: a file with what was stored before."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from k2ktui.engine.journal import new_id
from k2ktui.errors import Refused
from k2ktui.runtime.paths import state_dir, write_atomically
from k2ktui.text import safe_text


@dataclass(frozen=True, slots=True)
class Done:
    """A change that was made.

    Attributes:
        before: file with what was stored before, as Connect takes it.
        state: the connector's state afterwards.
        trace: why it or a task has failed, "" if none has.
    """

    before: Path
    state: str
    trace: str = ""


def keep(connector: str, text: str) -> Path:
    """Write what was stored before to a file of the user's, and return its name.

    Raises:
        Refused: it cannot be written, so nothing must be changed.
    """
    now = int(time.time() * 1000)
    try:
        path = state_dir("mm2") / f"offsets-{new_id(now, secrets.token_hex(2))}.json"
        write_atomically(path, f"{text}\n".encode(), mode=0o600)
    except OSError as error:
        raise Refused(
            f"what {safe_text(connector)} has stored cannot be kept in a file: {error.strerror}",
            unchanged="No offset was changed.",
        ) from None
    return path
