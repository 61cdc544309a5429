"""Report a bug in k2ktui to the operator, and keep its traceback in a file."""

from __future__ import annotations

import traceback

from k2ktui.errors import InternalError
from k2ktui.private_files import private_directory, write_private


def fault(error: Exception) -> InternalError:
    """Return the error to show for an unexpected exception.

    The traceback is written to a file in the user's state directory, without local values and
    without the exception's text, because both may contain secrets.
    """
    # Deferred: only needed here.
    from platformdirs import user_state_path

    path = user_state_path("k2ktui") / "crash.txt"
    lines = [*traceback.format_tb(error.__traceback__), type(error).__name__, "\n"]
    try:
        private_directory(path.parent)
        write_private(path, "".join(lines).encode(errors="backslashreplace"))
        hint = f"Report it, with {path}."
    except OSError:
        hint = "Report it; its place could not be written to a file."
    name = type(error).__name__
    return InternalError(f"internal error in k2ktui ({name}).", hint=hint)
