"""The section ``drill.hooks``: commands that a drill runs before or after a phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from k2ktui.config.clusters import Section
from k2ktui.config.problems import Path, Problem, format_path
from k2ktui.config.scalars import Duration, Name
from k2ktui.config.tree import Node
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import Hook
from k2ktui.engine.drill.model import PHASES
from k2ktui.secret_values import without_userinfo

HOOKS: Path = ("drill", "hooks")
LONGEST_S = 24 * 3600.0
MOST_HOOKS = 50
_MOST_ARGUMENTS, _LONGEST = 100, 4096
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
Argument = Annotated[Name, Field(max_length=_LONGEST)]
Command = Annotated[
    tuple[Argument, ...],
    BeforeValidator(_command, json_schema_input_type=list[Name]),
    Field(max_length=_MOST_ARGUMENTS),
]


class DrillHook(Section):
    """One command: when it runs, what it is for, and what undoes it."""

    before: Phase = None
    after: Phase = None
    for_: Annotated[Name, Field(min_length=1, max_length=_LONGEST)]
    command: Command
    timeout_s: Annotated[Duration, Field(gt=0, le=LONGEST_S)] = 60.0
    abort: Command | None = None

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


def find_secrets(tree: Node, section: Sequence[DrillHook]) -> Iterator[Problem]:
    """Yield an error for each text of a hook that has a secret, or that a template has filled.

    Every user of a host can read the arguments of its processes.
    """
    if not section:
        return
    for path, node in tree.walk():
        if path[:2] != HOOKS or not isinstance(node.value, str):
            continue
        if node.secret or without_userinfo(node.value) != node.value:
            yield Problem(
                node.mark,
                format_path(path),
                "expected no template and no login: every user of a host sees the arguments of its "
                "processes; let the command read secrets from a file",
            )
