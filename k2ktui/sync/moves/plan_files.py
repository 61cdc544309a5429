"""Reads plan files, and decides whether ``apply`` may use the pipeline files that a plan names.

A plan is a file that people pass around. Whoever can change it, or a file that it names, chooses
the clusters that receive the operator's logins. So a pipeline file that only the plan names must be
unchanged since the plan was made, and writable only by this user and root.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from k2ktui.config.inputs import STDIN
from k2ktui.engine.moves.plan import Plan, UnusablePlan, load_plan
from k2ktui.errors import ConfigError, Refused
from k2ktui.private_files import why_others_may_write
from k2ktui.text import list_names, safe_message, safe_text

_SALT_LENGTH = 16
_Plan = TypeVar("_Plan")


def read_plan(path: Path, now: float) -> Plan:
    """Read a plan file, for a command or a program that applies it.

    Args:
        path: the plan file, ``-`` for standard input.
        now: current time in epoch seconds; 0 accepts an expired plan.

    Raises:
        ConfigError: the file cannot be read.
        Refused: the plan is not usable.
    """
    return read_plan_file(path, lambda text: load_plan(text, now), "k2ktui plan")


def read_plan_file(path: Path, load: Callable[[str], _Plan], made_by: str) -> _Plan:
    """Read a plan file of any kind, ``-`` for standard input.

    Args:
        path: the file.
        load: makes a plan of its text, or raises UnusablePlan.
        made_by: the command that makes such files.

    Raises:
        ConfigError: the file cannot be read.
        Refused: the plan is not usable.
    """
    try:
        return load((Path("/dev/stdin") if str(path) == STDIN else path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigError(
            f"plan {safe_text(str(path))} could not be read: {reason}",
            unchanged="Nothing was changed.",
        ) from error
    except UnusablePlan as error:
        raise Refused(
            f"plan {safe_text(str(path))} cannot be used: {safe_message(str(error))}",
            unchanged="Nothing was changed.",
            hint=f"Make a new plan with {made_by}.",
        ) from error


class PlanOfFiles(Protocol):
    """A plan that names its pipeline's files."""

    @property
    def id(self) -> str:
        """Short id of the plan."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """The files."""
        ...

    @property
    def files_digest(self) -> str:
        """What :func:`digest_files` returned for them."""
        ...


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


def require_trusted_files(plan: PlanOfFiles, command: str) -> None:
    """Refuse files that only the plan names, and that were changed or that others may write.

    Args:
        plan: the plan.
        command: the command that applies it, which also takes the file from the operator.

    Raises:
        Refused: with the file and the reason.
    """

    def refused(reason: str) -> Refused:
        return Refused(
            f"plan {plan.id} cannot choose its pipeline file: {reason}",
            unchanged="Nothing was changed, and no login was sent.",
            hint=f"Name the pipeline yourself: {command} -f FILE PLAN.",
        )

    if not plan.files:
        raise refused("it names no pipeline file")
    for file in plan.files:
        reason = why_others_may_write(_path(file))
        if reason:
            raise refused(f"its pipeline file {safe_text(file)} is not safe: {reason}")
    names = list_names([safe_text(file) for file in plan.files], 3)
    if not plan.files_digest.partition(":")[2]:
        raise refused(f"it does not record the contents of {names}")
    try:
        is_unchanged = have_digest(plan.files, plan.files_digest)
    except (OSError, ValueError) as error:
        raise refused(f"{names} cannot be compared with it") from error
    if not is_unchanged:
        raise refused(f"{names} was changed after the plan was made")


def have_digest(files: Sequence[str], salted: str) -> bool:
    """Return whether files have the contents of which ``salt:digest`` was made.

    Raises:
        OSError: a file cannot be read.
        ValueError: the digest is none.
    """
    salt, _, digest = salted.partition(":")
    return hmac.compare_digest(_digest(files, bytes.fromhex(salt)), digest)


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
