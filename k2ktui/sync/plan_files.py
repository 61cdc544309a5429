"""Decides whether ``apply`` may use the pipeline files that a plan names.

A plan is a file that people pass around. Whoever changes it, or a file that it names, chooses the
clusters that the operator's logins are sent to. So a file that only the plan names must be as it
was when the plan was made, and writable by nobody but this user and root.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from k2ktui.engine.plan import Plan
from k2ktui.errors import Refused
from k2ktui.private_files import why_others_may_write
from k2ktui.text import list_names, safe_text

_SALT_LENGTH = 16


def digest_files(files: Sequence[str]) -> str:
    """Return ``salt:digest`` of the files' contents as hex text; "" if one cannot be read twice.

    The digest costs 50 ms: a file may hold a short password, and a plan is shown to others, who
    must not find the password by trying.
    """
    salt = secrets.token_bytes(_SALT_LENGTH)
    try:
        return f"{salt.hex()}:{_digest(files, salt)}" if all(map(_is_regular, files)) else ""
    except OSError:
        return ""


def require_trusted_files(plan: Plan) -> None:
    """Refuse files that only the plan names, and that were changed or that others may write.

    Raises:
        Refused: with the file and the reason.
    """
    if not plan.files:
        raise _refused(plan, "it names no pipeline file")
    for file in plan.files:
        reason = why_others_may_write(_path(file))
        if reason:
            raise _refused(plan, f"its pipeline file {safe_text(file)} is not safe: {reason}")
    salt, _, digest = plan.files_digest.partition(":")
    names = list_names([safe_text(file) for file in plan.files], 3)
    if not digest:
        raise _refused(plan, f"it does not record the contents of {names}")
    try:
        is_unchanged = hmac.compare_digest(_digest(plan.files, bytes.fromhex(salt)), digest)
    except (OSError, ValueError) as error:
        raise _refused(plan, f"{names} cannot be compared with it") from error
    if not is_unchanged:
        raise _refused(plan, f"{names} was changed after the plan was made")


def _refused(plan: Plan, reason: str) -> Refused:
    return Refused(
        f"plan {plan.id} cannot choose its pipeline file: {reason}",
        unchanged="Nothing was changed, and no login was sent.",
        hint="Name the pipeline yourself: k2ktui apply -f FILE PLAN.",
    )


def _path(file: str) -> Path:
    """Return the path in ``FILE[#A->B]``."""
    return Path(file if os.path.exists(file) else file.partition("#")[0])


def _is_regular(file: str) -> bool:
    return stat.S_ISREG(_path(file).stat().st_mode)


def _digest(files: Sequence[str], salt: bytes) -> str:
    whole = hashlib.sha256()
    for file in files:
        whole.update(hashlib.sha256(_path(file).read_bytes()).digest())
    return hashlib.scrypt(whole.digest(), salt=salt, n=2**14, r=8, p=1).hex()
