"""Rights that applications need on the target: shown before it is opened, and created with it.

They are what the source's ACLs asked for while it answered and no drill was open, as the record on
the target says. Anyone who may write to the state topic could have written that record: the
question names each of them.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from time import time

from k2ktui.drill.changes.handler import read_change
from k2ktui.drill.session import Session
from k2ktui.drill.topics import read_routes
from k2ktui.engine.acl import Acl
from k2ktui.engine.drill.changes import dump_names, read_entries
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus
from k2ktui.engine.drill.steps import find_change
from k2ktui.engine.drill.topics import choose_rights
from k2ktui.engine.moves.apply import WriteOutcome
from k2ktui.engine.parity.acl_items import acl_creation, describe_acls, read_acl
from k2ktui.engine.parity.acls import find_uncovered
from k2ktui.engine.parity.journal import OPENED
from k2ktui.engine.records.wanted_acls import WantedAclsRecord
from k2ktui.errors import Refused
from k2ktui.kafka.admin.acls import NoAuthorizer, read_acls
from k2ktui.parity.wanted import creates_rights
from k2ktui.parity.writer import ParityWriter
from k2ktui.sync.store import StateStore
from k2ktui.text import counted, duration, first_lines, moment, safe_message, safe_text

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class MissingRights:
    """ACLs to create on the target, denials first, and what the question says of them."""

    acls: tuple[Acl, ...] = ()
    lines: tuple[str, ...] = ()


def find_missing_rights(session: Session) -> MissingRights:
    """Return the ACLs that the target lacks, if the pipeline wants them created by a drill.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    pipeline = session.flow.pipeline
    if pipeline is None or not creates_rights(pipeline):
        return MissingRights()
    record = _read_record(session)
    if record is None:
        return _none("the target has no record of them; k2ktui sync keeps it")
    expected = session.drill.source_cluster
    if expected and record.cluster != expected:
        return _none(
            f"the record is of cluster {safe_text(record.cluster)}, not of the source "
            f"({safe_text(expected)})"
        )
    try:
        present = read_acls(session.target)
    except NoAuthorizer:
        return _none("the target has no authorizer: nothing is denied there")
    except Refused as error:
        return _none(safe_message(error.message))
    wanted = [acl for acl in record.all if pipeline.parity.acls.compares(acl.principal)]
    more: tuple[str, ...] = ()
    if session.drill.topics:
        routes = read_routes(session.flow, DrillKind.DISASTER, session.target)
        targets = {name for names in routes.values() for name in names}
        wanted, others = choose_rights(wanted, targets)
        if others:
            more = (
                f"{counted(others, 'ACL')} for prefixes or all topics would give rights on other "
                "topics: not created; k2ktui parity plan shows them.",
            )
    missing = find_uncovered(wanted, present)
    acls = tuple(acl for acl in wanted if acl in missing)
    at = f"{moment(record.at_ms / 1000)}, {duration(max(0.0, time() - record.at_ms / 1000))} ago"
    of = f"cluster {safe_text(record.cluster)} asked for {len(wanted):,} at {at}"
    if not acls:
        return MissingRights((), (f"Applications have their rights on the target: {of}.", *more))
    first = (
        f"Creates {counted(len(acls), 'ACL')} on the target, so that applications can use it; {of}:"
    )
    return MissingRights(acls, (first, *describe_acls(acls), *more))


def _none(why: str) -> MissingRights:
    return MissingRights((), (f"No rights of applications are created: {why}.",))


def _read_record(session: Session) -> WantedAclsRecord | None:
    with closing(StateStore(session.config, session.target)) as store:
        return store.read().wanted_acls


def create_rights(session: Session, acls: tuple[Acl, ...]) -> tuple[str, ...]:
    """Create ACLs on the target, with an entry of parity in the journal; return what failed.

    What was refused does not keep the target from being opened: in a disaster, most is better than
    nothing.

    Raises:
        PartlyApplied: the target stopped answering meanwhile.
        K2kError: the journal cannot be written; nothing was created.
    """
    if not acls:
        return ()
    known = find_change(session.drill, ChangeKind.RIGHTS)
    entries = [] if known is None else read_change(session.drill, known, read_entries)
    change = session.intend_new(
        DrillPhase.OPEN_TARGET,
        ChangeKind.RIGHTS,
        f"create {counted(len(acls), 'ACL')} on the target for its applications",
        after=dump_names(entries),
    )
    assert session.flow.pipeline is not None
    with closing(StateStore(session.config, session.target)) as store:
        writer = ParityWriter(session.flow.pipeline, session.target, store)
        done = writer.write([acl_creation(acl) for acl in acls], OPENED, plan=session.drill.id)
    made = replace(change, after=dump_names([*entries, done.id]))
    session.settle(made, ChangeStatus.MADE)
    failed = [
        f"{read_acl(row.write.item)}: not created: {safe_message(row.why or row.result)}"
        for row in done.rows
        if row.result is not WriteOutcome.APPLIED
    ]
    return tuple(first_lines(failed, _SHOWN))
