"""The section ``drill``: failovers of the pipeline, and their hooks; not a Lenses setting."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from k2ktui.config.clusters import Section
from k2ktui.config.problems import Path
from k2ktui.config.scalars import Duration, Name
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import Hook
from k2ktui.engine.drill.model import PHASES
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.strict_json import LARGEST, LARGEST_MS

HOOKS: Path = ("drill", "hooks")
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


class DrillSettings(Section):
    """Failover drills of the pipeline."""

    objectives: DrillObjectives = DrillObjectives()
    hooks: Annotated[
        tuple[DrillHook, ...], Field(max_length=MOST_HOOKS), AfterValidator(require_different)
    ] = Field(
        default=(),
        description="Commands that a drill runs before or after a phase, in the order of the list",
    )

    @property
    def hook_list(self) -> tuple[Hook, ...]:
        """The hooks without the file's types."""
        return tuple(section.hook for section in self.hooks)
