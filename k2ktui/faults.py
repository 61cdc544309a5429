"""Report a bug in k2ktui to the operator, and keep its traceback in a file."""

from __future__ import annotations

import traceback

from k2ktui.errors import InternalError
from k2ktui.private_files import private_directory, user_path, write_private


def fault(error: Exception) -> InternalError:
    """Return the error to show for an unexpected exception.

    The traceback is written to a file in the user's state directory, without local values and
    without the exception's text, because both may contain secrets.
    """
    path = user_path("state") / "crash.txt"
    lines = [*traceback.format_tb(error.__traceback__), type(error).__name__, "\n"]
    try:
        private_directory(path.parent)
        write_private(path, "".join(lines).encode(errors="backslashreplace"))
        hint = f"Report it, with {path}."
    except OSError as failed:
        why = f"{path}: {failed.strerror}"
        hint = f"Report it. The trace could not be saved ({why}); XDG_STATE_HOME names its folder."
    name = type(error).__name__
    return InternalError(f"internal error in k2ktui ({name}).", hint=hint)
