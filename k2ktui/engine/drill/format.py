"""Encoding of a drill's record on the state topic, and the hash chain of its events."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from k2ktui.engine.bounded import read_as
from k2ktui.engine.drill.hooks import HookRole
from k2ktui.engine.drill.model import Drill, DrillEvent
from k2ktui.engine.strict_json import MalformedRecord, field, mapping
from k2ktui.engine.topics import LEGAL_TOPIC

# Fields that only say who acts at the moment; a report does not contain them.
_MOMENTARY = ("session", "beat_ms", "owner")
# Of a finding: the first keys of a tail, and what a command that failed has printed last.
_CONTENTS = re.compile(
    r"((?:hook (?:before|after) [a-z-]+|cut-off|redirect) has failed: [^:]*): .*"
    r"|; it printed: .*|, first keys: .*",
    re.DOTALL,
)


def drill_body(drill: Drill) -> dict[str, Any]:
    """Return a drill as a JSON object without its id, which is in the record's key."""
    body = _as_dict(drill)
    del body["id"]
    return {"drill": body}


def read_drill(drill_id: str, body: dict[str, Any]) -> Drill:
    """Return the drill of a parsed record.

    Raises:
        MalformedRecord: a field is missing, of another type or out of bounds.
    """
    drill = read_as(_adapter(), {**mapping(field(body, "drill")), "id": drill_id})
    names = [record.phase for record in drill.phases]
    if len(set(names)) < len(names):
        raise MalformedRecord("a phase that appears twice")
    if not all(map(LEGAL_TOPIC.fullmatch, drill.topics)):
        raise MalformedRecord("a name that no topic can have")
    return drill


def without_contents(drill: Drill) -> Drill:
    """Return a drill without what hooks have printed and without keys of records.

    Both may be secrets; findings and blockers have them at their ends.
    """
    return replace(
        drill,
        phases=tuple(
            replace(record, live=_cut(record.live), findings=tuple(map(_cut, record.findings)))
            for record in drill.phases
        ),
        hooks=tuple(replace(hook, output="", undo_output="") for hook in drill.hooks),
        tail=tuple(replace(part, keys=()) for part in drill.tail),
        blockers=tuple(map(_cut, drill.blockers)),
    )


def _cut(text: str) -> str:
    return _CONTENTS.sub(r"\1", text)


def chain_event(drill: Drill, event: DrillEvent) -> Drill:
    """Return the drill with one more event, whose digest covers it and all events before it."""
    last = drill.events[-1].digest if drill.events else ""
    return replace(
        drill, events=(*drill.events, replace(event, digest=event_digest(drill.id, last, event)))
    )


def event_digest(drill_id: str, last: str, event: DrillEvent) -> str:
    """Return the digest of an event: SHA-256 of the digest before it and of its content."""
    content = [drill_id, last, event.at_ms, event.who, event.phase, event.text]
    return hashlib.sha256(_canonical(content)).hexdigest()


def find_broken_event(drill: Drill) -> int | None:
    """Return the number of the first event whose digest does not fit, from 1; None if all do."""
    last = ""
    for number, event in enumerate(drill.events, start=1):
        if event.digest != event_digest(drill.id, last, event):
            return number
        last = event.digest
    return None


def report_content(drill: Drill) -> dict[str, Any]:
    """Return what a report's hash covers: the drill without its events and without who acts."""
    content = _as_dict(drill)
    for name in (*_MOMENTARY, "events", "status", "ended_ms"):
        del content[name]
    return content


def report_digest(drill: Drill) -> str:
    """Return the SHA-256 of a report's content as hex text."""
    return hashlib.sha256(_canonical(report_content(drill))).hexdigest()


def _as_dict(drill: Drill) -> dict[str, Any]:
    """Return all fields, except those that earlier releases did not have and that are empty.

    The hash of a report of an earlier release covers what that release wrote.
    """
    value = asdict(drill)
    later: list[tuple[dict[str, Any], Mapping[str, Any]]] = [
        *((record, {"failed_checks": ()}) for record in value["phases"]),
        *((check, {"at_ms": 0}) for check in value["checks"]),
        *((group, {"clients": ()}) for group in value["groups"]),
        *((hook, {"role": HookRole.HOOK, "addresses": (), "ttl_s": 0}) for hook in value["hooks"]),
        (value, {"site": None, "objectives": None, "hooks": (), "hooks_digest": "", "topics": ()}),
        (value, {"doubt": ""}),
        *([(value["site"], {"names": ()})] if value["site"] is not None else []),
        (value["options"], {"topics": ""}),
        (value["figures"], {"topics_left": None}),
    ]
    for part, defaults in later:
        for name, default in defaults.items():
            if part[name] == default:
                del part[name]
    return value


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@cache
def _adapter() -> TypeAdapter[Drill]:
    # Made on demand: most commands meet no drill.
    return TypeAdapter(Drill)
