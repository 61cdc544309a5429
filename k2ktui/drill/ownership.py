"""The owner of a drill: one process at a time, asked for before it is taken over."""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import sleep, time

import psutil

from k2ktui.drill.authorship import find_doubt, read_owners
from k2ktui.drill.files import forward_path
from k2ktui.drill.operator import Operator, agree_question, take_over_question
from k2ktui.drill.peers import ALONE, Peers
from k2ktui.drill.session import Session, Signing
from k2ktui.drill.store import DrillStore
from k2ktui.engine.access import Access
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, PhaseStatus, phases_of
from k2ktui.engine.drill.steps import is_acting
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.errors import K2kError, Refused
from k2ktui.jobs.local_jobs import this_host
from k2ktui.kafka.clients import target_cluster
from k2ktui.runtime.host import pid_space
from k2ktui.sync.flow import Flow
from k2ktui.text import counted, list_names, safe_text

log = logging.getLogger(__name__)

_UNCHANGED = "Nothing was changed."
# As ``new_id`` makes them. A dot would reach the shadow groups of another drill.
_ID = re.compile(r"[0-9A-Za-z_-]{1,64}")
_NAMED = 3
# Three heartbeats: one that fails or comes late does not let a drill look as if nobody owns it.
_OBSERVE_S = 15.0
_OBSERVE_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts on the drills of a pipeline.

    Attributes:
        flow: what is failed over.
        files: the flow's files, which a drill remembers.
        may: the caller's access rights.
        operator: who watches and confirms.
        peers: the other members, of a member of a site drill.
        ask_secret: asks a person for the passphrase of a key, whose name it is given; None if
            nobody can be asked.
    """

    flow: Flow
    files: Sequence[str]
    may: Access
    operator: Operator[Drill]
    peers: Peers = ALONE
    ask_secret: Callable[[str], str] | None = None

    def connect(
        self, drill: Drill, store: DrillStore, paths: Paths, signing: Signing | None
    ) -> Session:
        """Return a session of a drill, which is not opened yet."""
        return Session(
            self.flow,
            drill,
            store,
            self.operator,
            self.may,
            self.files,
            paths.export_to,
            forward_file=paths.forward,
            peers=self.peers,
            signing=signing,
        )


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths that a command names; a record of a drill never names one.

    Attributes:
        export_to: directory of exported records; empty for one beside the pipeline's file.
        forward: file of the forward pipeline; empty for the one that the reverse file names.
        exports: whether the command may export records.
    """

    export_to: str = ""
    forward: str = ""
    exports: bool = False


NO_PATHS = Paths()


@contextmanager
def own_drill(
    actor: Actor,
    drill_id: str,
    text: str,
    *,
    take_over: bool | None,
    preview: Callable[[Session], Sequence[str]],
    paths: Paths = NO_PATHS,
    also_over: bool = False,
    signing: Callable[[Actor], Signing | None] = lambda _: None,
) -> Iterator[Session]:
    """Become the owner of a drill, asking first if another process acts on it.

    If it is not proven that an owner of the drill wrote its record, a person has to agree to what
    ``preview`` returns; nothing is asked if it returns nothing.

    Args:
        actor: who acts.
        drill_id: the drill.
        text: what is done, for the journal.
        take_over: whether it is taken over without a question; None: never.
        preview: returns what the record would change.
        paths: the paths that the command names.
        also_over: whether the drill may be over.
        signing: returns how its report is signed if it ends; it may ask for a passphrase.

    Raises:
        ConfigError: there is no such drill.
        Refused: it is over, another operator acts, no person agreed, or as for ``Session.open``.
        K2kError: as for ``Session.open``.
    """
    flow, files = actor.flow, actor.files
    target = target_cluster(flow.config)
    store = DrillStore(flow.config, target)
    try:
        drill = store.read(drill_id)
    except K2kError:
        store.close()
        raise
    session = actor.connect(drill, store, paths, None)
    try:
        _refuse_over(drill, also_over=also_over)
        _refuse_shape(drill)
        _refuse_topics(drill, flow)
        _refuse_paths(drill, files, paths)
        _refuse_member(drill, actor.peers)
        if is_owned(store, drill):
            if take_over is None or not (
                take_over or actor.operator.ask(take_over_question(drill))
            ):
                raise Refused(
                    f"{safe_text(drill.owner)} acts on drill {safe_text(drill_id)}",
                    unchanged=_UNCHANGED,
                    hint=f"Watch it with k2ktui drill show {safe_text(drill_id)} -f FILE, or take "
                    "it over with --take-over.",
                )
            text = f"taken over from {safe_text(drill.owner)}, {text}"
            log.info("drill %s: %s", drill_id, text)
        session.signing = signing(actor)
        owners = read_owners(flow.config, target, drill_id)
        session.drill = shown = store.read(drill_id)
        doubt = find_doubt(flow.config, target, store, drill_id, owners)
        if doubt and not shown.is_over:
            log.warning("drill %s: not proven who wrote it: %s", drill_id, doubt)
            _ask_person(session, doubt, preview)

        def owned(_: Drill) -> Drill:
            """Read again what the former owner has written until it was fenced."""
            newest = store.read_settled(drill_id)
            _refuse_over(newest, also_over=also_over)
            _refuse_shape(newest)
            _refuse_topics(newest, flow)
            _refuse_paths(newest, files, paths)
            now = ""
            if _content(newest) != _content(shown):
                now = find_doubt(flow.config, target, store, drill_id, owners)
            if now and not newest.is_over:
                raise Refused(
                    f"the record of drill {safe_text(drill_id)} was changed meanwhile: {now}",
                    unchanged=_UNCHANGED,
                    hint="Repeat the command: it shows what the record is now.",
                )
            return replace(newest, doubt=doubt or now or newest.doubt)

        session.open(new_token(), text, owned)
        yield session
    finally:
        session.close()


def _content(drill: Drill) -> Drill:
    """Return a drill without who acts on it at the moment."""
    return replace(drill, owner="", session="", beat_ms=0)


def _refuse_over(drill: Drill, *, also_over: bool) -> None:
    if drill.is_over and not also_over:
        name = safe_text(drill.id)
        raise Refused(
            f"drill {name} is {drill.status}",
            unchanged=_UNCHANGED,
            hint=f"Read its report: k2ktui drill report {name} -f FILE",
        )


def _refuse_member(drill: Drill, peers: Peers) -> None:
    """Refuse to act on one member of a site drill: the others may need what it would take away."""
    moves = not drill.is_over and drill.kind is not DrillKind.REHEARSE
    if drill.site is not None and moves and peers is ALONE:
        name, site = safe_text(drill.id), safe_text(drill.site.id)
        raise Refused(
            f"drill {name} belongs to the site drill {site} of "
            f"{counted(len(drill.site.members), 'pipeline')}",
            unchanged=_UNCHANGED,
            hint=f"Act on all of them: k2ktui drill resume {site} -d DIR, or leave this one out: "
            f"--leave-out {safe_text(drill.pipeline)}",
        )


def _refuse_shape(drill: Drill) -> None:
    """Refuse a record that no drill can have: its id names groups, its phases are run."""
    phases = tuple(record.phase for record in drill.phases)
    allowed = phases_of(drill.kind, drill.topics, redirects=drill.redirects)
    if _ID.fullmatch(drill.id) is None or phases != allowed:
        raise Refused(
            f"the record of drill {safe_text(drill.id)} was not written by k2ktui: its id or its "
            f"phases are not those of a {drill.kind.noun}",
            unchanged=_UNCHANGED,
            hint="Find out what else writes to the state topic.",
        )


def _refuse_topics(drill: Drill, flow: Flow) -> None:
    """Refuse topics that the pipeline does not copy, by this host's file."""
    chosen = flow.config.topics
    other = [name for name in drill.topics if not chosen.matches(name, drill.topics)]
    if drill.topics and (other or flow.pipeline is None):
        raise Refused(
            f"drill {safe_text(drill.id)} is over topics that this file does not copy: "
            f"{list_names(other or drill.topics, _NAMED)}",
            unchanged=_UNCHANGED,
            hint="Give the file with which the drill was begun; or find out what else writes to "
            "the state topic.",
        )


def _refuse_paths(drill: Drill, files: Sequence[str], paths: Paths) -> None:
    """Refuse to guess a path that the drill was begun with: its record does not decide it."""
    name, options = safe_text(drill.id), drill.options
    beside = forward_path(files) if files else None
    forwards = ("", "" if beside is None else os.path.abspath(beside))
    if drill.kind is DrillKind.FAILBACK and not paths.forward and options.forward not in forwards:
        raise Refused(
            f"drill {name} was begun with --forward {safe_text(options.forward)}; its record, "
            "which others may have written, does not decide which file is used",
            unchanged=_UNCHANGED,
            hint="Repeat the command with --forward FILE.",
        )
    # Without a choice yet, it may be to export.
    exports = paths.exports and options.tail in (TailChoice.EXPORT, TailChoice.STOP)
    over = drill.record(DrillPhase.TAIL).status in (PhaseStatus.DONE, PhaseStatus.SKIPPED)
    if exports and not over and options.export_to and not paths.export_to:
        raise Refused(
            f"drill {name} was begun with --export-to {safe_text(options.export_to)}; its record, "
            "which others may have written, does not decide where files are written",
            unchanged=_UNCHANGED,
            hint="Repeat the command with --export-to DIR.",
        )


def _ask_person(session: Session, doubt: str, preview: Callable[[Session], Sequence[str]]) -> None:
    """Show what an unproven record would change, and require that a person agrees."""
    name = safe_text(session.drill.id)
    lines = [f"  {line}" for line in preview(session)]
    if not lines:
        return
    title = f"It is not proven that a drill wrote the record of {name}: {doubt}."
    shown = [title, "It would change, or take from the record:", *lines]
    if not session.operator.ask(agree_question(session.drill, shown)):
        raise Refused(
            "\n".join(["a person must agree to continue this drill. " + title, *shown[1:]]),
            unchanged=_UNCHANGED,
            hint="Repeat the command at a terminal, and compare these lines with k2ktui drill "
            f"report {name} -f FILE.",
        )


def new_token() -> str:
    """Return an id of this process, which shows on this host whether it still exists."""
    return f"{pid_space()}:{os.getpid()}:{secrets.token_hex(8)}"


def has_ended(token: str) -> bool:
    """Return whether the process of a token is known to have ended."""
    space, _, rest = token.partition(":")
    pid = rest.partition(":")[0]
    return space == pid_space() and pid.isdigit() and not psutil.pid_exists(int(pid))


def is_acted_on(drill: Drill) -> bool:
    """Return whether a process acts on a drill, by its last record and by what this host knows."""
    return is_acting(drill, int(time() * 1000)) and not has_ended(drill.session)


def was_begun_here(drill: Drill) -> bool:
    """Return whether the process that acted on a drill last ran on this host."""
    space, _, _ = drill.session.partition(":")
    if space:
        return space == pid_space()
    return drill.owner.rpartition("@")[2] == this_host()


def is_owned(store: DrillStore, drill: Drill) -> bool:
    """Return whether a process acts on the drill: whether its record changes while it is watched.

    The clocks of two hosts may disagree, so its time alone does not decide.
    """
    if not drill.session or has_ended(drill.session):
        return False
    until = time() + _OBSERVE_S
    while time() < until:
        now = store.read(drill.id)
        if (now.session, now.beat_ms) != (drill.session, drill.beat_ms):
            return bool(now.session)
        sleep(_OBSERVE_AGAIN_S)
    return False
