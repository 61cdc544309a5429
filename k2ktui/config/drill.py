"""The section ``drill``: failovers of the pipeline, and their hooks; not a Lenses setting."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from k2ktui.config.clusters import BOOTSTRAP, Properties, Section, address_problem, one_line
from k2ktui.config.drill_dns import DrillDns
from k2ktui.config.problems import Path
from k2ktui.config.scalars import Duration, Name, whole_path
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import Hook, HookRole
from k2ktui.engine.drill.model import PHASES
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.strict_json import LARGEST, LARGEST_MS

HOOKS: Path = ("drill", "hooks")
REDIRECT: Path = ("drill", "redirect")
MOST_HOOKS = 50
_LONGEST_HOOK_S = 24 * 3600.0
_MOST_ARGUMENTS, _LONGEST_TEXT = 100, 4096
# A rehearsal runs no hook, so no hook belongs to a phase that only rehearsals have.
HOOK_PHASES = tuple(
    phase
    for phase in DrillPhase
    if any(phase in phases for kind, phases in PHASES.items() if kind is not DrillKind.REHEARSE)
)


def _phase(value: Any) -> Any:
    if value is None:
        return None
    if str(value) not in set(HOOK_PHASES):
        raise ValueError(f"a phase: {', '.join(HOOK_PHASES)}")
    return DrillPhase(str(value))


def _command(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError("a list of a program and its arguments, which no shell reads")
    if not value or not str(value[0]):
        raise ValueError("a list that begins with a program")
    program = str(value[0])
    if "/" in program and not program.startswith("/"):
        raise ValueError("a program with its whole path, or a name that PATH finds")
    if any("\0" in str(part) for part in value):
        raise ValueError("arguments without the character NUL")
    return tuple(value)


Phase = Annotated[
    DrillPhase | None,
    BeforeValidator(_phase),
    WithJsonSchema({"enum": [str(phase) for phase in HOOK_PHASES]}),
]
Argument = Annotated[Name, Field(max_length=_LONGEST_TEXT)]
Command = Annotated[
    tuple[Argument, ...],
    BeforeValidator(_command, json_schema_input_type=list[Name]),
    Field(max_length=_MOST_ARGUMENTS),
]


class DrillHook(Section):
    """One command: when it runs, what it is for, and what undoes it."""

    before: Phase = Field(
        default=None,
        description="Phase of a drill before which the command runs; this key or `after`",
    )
    after: Phase = Field(default=None, description="Phase after which the command runs")
    for_: Annotated[Name, Field(min_length=1, max_length=_LONGEST_TEXT)] = Field(
        description="What the command is for, in one sentence"
    )
    command: Command = Field(
        description=(
            "Program and arguments, without a shell; the program has its whole path, or is found "
            "by `PATH`"
        )
    )
    timeout_s: Annotated[Duration, Field(gt=0, le=_LONGEST_HOOK_S)] = Field(
        default=60.0, description="Time after which the command is killed"
    )
    abort: Command | None = Field(
        default=None,
        description=(
            "Program and arguments that undo the command when the drill is aborted; not for hooks "
            "after `open-target`"
        ),
    )

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if (self.before is None) is (self.after is None):
            raise ValueError("either before or after, with a phase")
        if self.abort is not None and not self.hook.can_be_undone:
            raise ValueError(
                "no abort: it would never run, as a drill is not aborted after open-target"
            )
        return self

    @property
    def hook(self) -> Hook:
        """Return it without the file's types."""
        phase = self.before or self.after
        assert phase is not None
        command, abort = tuple(map(str, self.command)), tuple(map(str, self.abort or ()))
        after = self.after is not None
        return Hook(phase, after, str(self.for_), command, self.timeout_s, abort)


def require_different(hooks: tuple[DrillHook, ...]) -> tuple[DrillHook, ...]:
    """Return the hooks; ValueError if two are the same: the record of a drill has one of them."""
    if len({hook.hook.digest for hook in hooks}) < len(hooks):
        raise ValueError("no hook twice")
    return hooks


_LONGEST_OBJECTIVE_S = LARGEST_MS / 1000


class DrillObjectives(Section):
    """The largest loss and duration of a failover; none by default."""

    rpo_records: Annotated[int, Field(ge=0, le=LARGEST)] | None = Field(
        default=None,
        description=(
            "Most records that may be on the source only; without it, there is no such objective"
        ),
    )
    rpo_time_s: Annotated[Duration, Field(le=_LONGEST_OBJECTIVE_S)] | None = Field(
        default=None,
        description=(
            "Largest age of the oldest record that is on the source only; without it, there is no "
            "such objective"
        ),
    )
    rto_time_s: Annotated[Duration, Field(le=_LONGEST_OBJECTIVE_S)] | None = Field(
        default=None,
        description=(
            "Longest time until applications continue on the target; without it, there is no such "
            "objective"
        ),
    )

    @property
    def values(self) -> Objectives:
        """Return them without the file's types."""
        return Objectives(self.rpo_records, self.rpo_time_s, self.rto_time_s)


_SERVER = re.compile(r"[A-Za-z0-9_.:-]+/[A-Za-z0-9_.:-]+")
_MOST_SERVERS, _MOST_HOSTS = 1000, 100


def _server(value: str) -> str:
    if not _SERVER.fullmatch(value):
        raise ValueError("BACKEND/SERVER of HAProxy's configuration")
    return value


Servers = Annotated[
    tuple[Annotated[Name, AfterValidator(_server)], ...],
    Field(min_length=1, max_length=_MOST_SERVERS),
]


class DrillHaproxy(Section):
    """HAProxy between the clients and both clusters."""

    socket: Annotated[Name, AfterValidator(whole_path), Field(max_length=100)] = Field(
        description="Path of HAProxy's runtime socket (`stats socket … level admin`)"
    )
    source: Servers = Field(
        description="Its servers that lead to the source, as `BACKEND/SERVER`; a cut-off sets them "
        "to `maint`, and shuts their sessions"
    )
    target: Servers = Field(
        description="Its servers that lead to the target; in `maint` until the redirect sets them "
        "to `ready`"
    )

    @model_validator(mode="after")
    def _differ(self) -> Self:
        if both := sorted(set(self.source) & set(self.target)):
            raise ValueError(f"{both[0]} leads to one cluster only")
        return self

    @property
    def cut(self) -> tuple[str, ...]:
        """Commands of the runtime API that close the way to the source."""
        closed = (f"set server {server} state maint" for server in self.source)
        shut = (f"shutdown sessions server {server}" for server in self.source)
        return (*closed, *shut)

    @property
    def restore(self) -> tuple[str, ...]:
        """Those that open it again."""
        return tuple(f"set server {server} state ready" for server in self.source)

    @property
    def move(self) -> tuple[str, ...]:
        """Those that lead clients to the target, and to no other cluster."""
        return (*self.cut, *(f"set server {server} state ready" for server in self.target))


class DrillRedirect(Section):
    """The clients' name: how they are cut off from the source, and led to the target."""

    name: Annotated[Name, Field(min_length=1, max_length=_LONGEST_TEXT)] = Field(
        description="Bootstrap servers that the clients have, `HOST:PORT`, with commas"
    )
    config: Properties = Field(
        default={},
        repr=False,
        description="Client properties with which the name is asked for its cluster; by default "
        "the connection of `target.kafka`",
    )
    command: Command | None = Field(
        default=None,
        description="Program and arguments that move the name to the target; this key, `dns` or "
        "`haproxy`",
    )
    cut: Command | None = Field(
        default=None,
        description="With `command` or `dns`: what closes the clients' way to the source, "
        "established connections included",
    )
    restore: Command | None = Field(default=None, description="What undoes `cut`")
    haproxy: DrillHaproxy | None = Field(
        default=None,
        description="HAProxy that does all of it; `command`, `cut` and `restore` are left out",
    )
    dns: DrillDns | None = Field(
        default=None, description="Records of DNS that lead to the target; in place of `command`"
    )
    hosts: Annotated[tuple[Command, ...], Field(max_length=_MOST_HOSTS)] = Field(
        default=(),
        description="Commands that look from other hosts: each ends with exit code 0 where no "
        "connection by the name is answered",
    )
    timeout_s: Annotated[Duration, Field(gt=0, le=_LONGEST_HOOK_S)] = Field(
        default=60.0,
        description="Time after which a command is killed, or a change by `dns` or `haproxy` has "
        "failed",
    )

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        if sum(way is not None for way in (self.command, self.dns, self.haproxy)) != 1:
            raise ValueError("one of command, dns and haproxy")
        if (self.cut is None) is not (self.restore is None):
            raise ValueError("cut and restore, or neither")
        if self.haproxy is not None and self.cut is not None:
            raise ValueError("no cut and restore beside haproxy, which does both")
        protocol = self.config.get("security.protocol", "")
        if BOOTSTRAP in self.config:
            raise ValueError(f"no {BOOTSTRAP} in config: the name is in name")
        if problem := address_problem(one_line(self.name), protocol):
            raise ValueError(problem)
        return self

    def hooks(self, kind: DrillKind) -> tuple[Hook, ...]:
        """Return the cut-off, if there is one, and the redirect, for the runner of hooks."""
        dns = None if self.dns is None else self.dns.move
        if self.haproxy is not None:
            cut, restore = self.haproxy.cut, self.haproxy.restore
            move, socket = self.haproxy.move, str(self.haproxy.socket)
        else:
            cut, restore, move = (
                tuple(map(str, part or ())) for part in (self.cut, self.restore, self.command)
            )
            socket = ""
        move = move if dns is None else dns.script
        name, limit = str(self.name), self.timeout_s
        closes = f"close the clients' way to the source by {name}"
        moves = f"lead clients of {name} to the target"
        is_lost = kind is DrillKind.DISASTER
        fence = DrillPhase.SOURCE_LOST if is_lost else DrillPhase.FENCE_PRODUCERS
        opened = DrillPhase.REDIRECT
        redirect = Hook(opened, False, moves, move, limit, (), HookRole.REDIRECT, socket, dns)
        if not cut:
            return (redirect,)
        cut_off = Hook(fence, False, closes, cut, limit, restore, HookRole.CUT_OFF, socket)
        return cut_off, redirect


class DrillSign(Section):
    """The key that signs the reports of drills when they end."""

    key: Annotated[Name, AfterValidator(whole_path), Field(max_length=_LONGEST_TEXT)] = Field(
        description="Path of a private key, Ed25519 in PEM, mode 600"
    )
    passphrase_file: (
        Annotated[Name, AfterValidator(whole_path), Field(max_length=_LONGEST_TEXT)] | None
    ) = Field(
        default=None,
        description="Path of a file with the key's passphrase, mode 600; without it, a command at "
        "a terminal asks",
    )
    directory: (
        Annotated[Name, AfterValidator(whole_path), Field(max_length=_LONGEST_TEXT)] | None
    ) = Field(
        default=None,
        description="Path of the directory of signed reports; by default `evidence` beside the "
        "pipeline's file",
    )


class DrillSettings(Section):
    """Failover drills of the pipeline."""

    objectives: DrillObjectives = DrillObjectives()
    hooks: Annotated[
        tuple[DrillHook, ...], Field(max_length=MOST_HOOKS), AfterValidator(require_different)
    ] = Field(
        default=(),
        description="Commands that a drill runs before or after a phase, in the order of the list",
    )

    redirect: DrillRedirect | None = Field(
        default=None,
        description="The clients' name, which a drill moves to the target; without it, clients are "
        "moved by hand or by hooks",
    )

    sign: DrillSign | None = Field(
        default=None, description="The key that signs reports; without it, none is signed"
    )

    def list_hooks(self, kind: DrillKind, topics: Collection[str] = ()) -> tuple[Hook, ...]:
        """Return what a drill runs, without the file's types.

        A rehearsal only lists its hooks, and a drill over some topics moves no name.
        """
        hooks = tuple(section.hook for section in self.hooks)
        if self.redirect is None or topics or kind is DrillKind.REHEARSE:
            return hooks
        return (*hooks, *self.redirect.hooks(kind))
