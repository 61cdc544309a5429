"""A parity plan: the differences as they were shown, hashed and with an expiry time; pure.

It is made once and saved; it is applied exactly as shown, or refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import FailFast, TypeAdapter

from k2ktui.engine.bounded import Seconds, Text, read_as
from k2ktui.engine.moves.plan import UnusablePlan, plan_text, require_usable
from k2ktui.engine.parity.model import Difference, ParityAction
from k2ktui.engine.strict_json import MalformedRecord, field, integer, parse_object, text
from k2ktui.text import counted

VERSION = 1
_LARGEST_FILE = 128 << 20
_ID_LENGTH = 12


@dataclass(frozen=True, slots=True)
class ParityPlan:
    """Differences, and what they depend on. Times are epoch seconds.

    Attributes:
        files: the pipeline's configuration files, for the command that applies the plan.
        files_digest: proves that their contents are the same; "" if unknown.
        notes: what could not be compared, and why.
    """

    pipeline: Text
    source_cluster: Text
    target_cluster: Text
    created_at: Seconds
    expires_at: Seconds
    made_by: Text
    rows: Annotated[tuple[Difference, ...], FailFast()]
    files: Annotated[tuple[Text, ...], FailFast()] = ()
    files_digest: Text = ""
    notes: Annotated[tuple[Text, ...], FailFast()] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the plan's contents as hex text."""
        body = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(body.encode()).hexdigest()

    @property
    def id(self) -> str:
        """Short id of the plan: the beginning of its digest."""
        return self.digest[:_ID_LENGTH]

    @property
    def changes(self) -> tuple[Difference, ...]:
        """The differences that applying the plan removes."""
        return tuple(row for row in self.rows if row.changes)


def dump_plan(plan: ParityPlan) -> str:
    """Return the plan as the text of a file: JSON with its digest, one row per line."""
    digest = plan.digest
    body = asdict(plan)
    rows = body.pop("rows")
    whole = {"v": VERSION, "kind": "parity", **body, "id": digest[:_ID_LENGTH], "sha256": digest}
    return plan_text(whole, rows)


def load_plan(raw: str, now: float) -> ParityPlan:
    """Read a plan file.

    Args:
        raw: contents of the file.
        now: current time in epoch seconds, to reject an expired plan.

    Raises:
        UnusablePlan: it is damaged, modified, expired, or of another version.
    """
    try:
        value = parse_object(raw, largest=_LARGEST_FILE)
        version = integer(field(value, "v"))
        if value.get("kind") != "parity":
            raise UnusablePlan("it is a plan of offsets; use k2ktui apply")
        if version != VERSION:
            raise UnusablePlan(f"it is of version {version}, this release reads {VERSION}")
        for name in ("files", "files_digest", "notes"):
            field(value, name)
        plan, digest = read_as(_PLAN, value), text(field(value, "sha256"))
    except MalformedRecord as error:
        raise UnusablePlan(f"it is not a parity plan, or is damaged ({error})") from error
    require_usable(plan.digest, digest, plan.expires_at, now)
    return plan


def summarize(rows: Iterable[Difference]) -> str:
    """Return the number of differences per action, as one line."""
    rows = tuple(rows)
    counts = {action: sum(row.action is action for row in rows) for action in ParityAction}
    if not rows:
        return "no difference"
    parts = [
        f"{counts[ParityAction.SET]:,} to set",
        f"{counts[ParityAction.REMOVE]:,} to remove",
        f"{counts[ParityAction.REPORT]:,} only reported",
    ]
    return f"{counted(len(rows), 'difference')}: {', '.join(parts)}"


_PLAN = TypeAdapter(ParityPlan)
