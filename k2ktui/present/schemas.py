"""Columns of planned, applied and verified schemas, and their JSON."""

from __future__ import annotations

from typing import Any

from k2ktui.engine.schemas.plan import PlannedSchema, SchemaPlan
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import NOT_AVAILABLE
from k2ktui.registry.operations import VerifiedSchema
from k2ktui.registry.registering import AppliedSchema, SchemaOutcome
from k2ktui.text import counted, safe_message, safe_text

_LONGEST = 80


def _number(value: int | None) -> str:
    return NOT_AVAILABLE if value is None else str(value)


_SOURCE: tuple[Column[PlannedSchema], ...] = (
    text_column("subject", lambda row: safe_text(row.source.subject, _LONGEST), left=True),
    text_column("version", lambda row: str(row.source.version)),
    text_column("type", lambda row: safe_text(row.source.schema.type), left=True, wide=True),
    text_column("id", lambda row: str(row.source.id)),
    text_column("target subject", lambda row: safe_text(row.target_subject, _LONGEST), left=True),
)

PLANNED: tuple[Column[PlannedSchema], ...] = (
    *_SOURCE,
    text_column("target id", lambda row: _number(row.target_id)),
    text_column("action", lambda row: str(row.action), left=True),
    text_column("reason", lambda row: safe_message(row.reason), left=True),
)

APPLIED: tuple[Column[AppliedSchema], ...] = (
    *(column.of(lambda row: row.planned) for column in _SOURCE),
    text_column("target id", lambda row: _number(row.target_id)),
    text_column("result", lambda row: str(row.outcome), left=True),
    text_column("reason", lambda row: safe_message(row.reason), left=True),
)

VERIFIED: tuple[Column[VerifiedSchema], ...] = (
    *(column.of(lambda row: row.planned) for column in _SOURCE),
    text_column("target id", lambda row: _number(row.target_id)),
    text_column("result", lambda row: str(row.agreement), left=True),
    text_column("reason", lambda row: safe_message(row.reason), left=True),
)


def plan_text(plan: SchemaPlan) -> str:
    """Return a plan as one sentence."""
    kept = sum(change.keeps_id for change in plan.changes)
    parts = [
        f"{counted(len(plan.changes), 'schema')} to register"
        + (f", {kept:,} with the id of the source" if kept else ""),
        f"{len(plan.schemas) - len(plan.changes) - len(plan.conflicts):,} present",
        counted(len(plan.conflicts), "conflict"),
    ]
    return f"{'; '.join(parts)}."


def results_text(rows: list[AppliedSchema]) -> str:
    """Return the results of an apply as one sentence."""
    counts = {outcome: sum(row.outcome is outcome for row in rows) for outcome in SchemaOutcome}
    return f"{', '.join(f'{count:,} {outcome}' for outcome, count in counts.items() if count)}."


def plan_object(plan: SchemaPlan) -> dict[str, Any]:
    """Return what ``--json`` prints of a plan."""
    return {
        "schemas": [
            {
                **_schema_object(schema),
                "target_id": schema.target_id,
                "target_version": schema.target_version,
                "action": str(schema.action),
                "reason": schema.reason,
            }
            for schema in plan.schemas
        ],
        "compatibility": [
            {"subject": setting.subject, "level": setting.level} for setting in plan.compatibility
        ],
        "unmapped": [
            {"subject": subject.name, "reason": subject.reason} for subject in plan.unmapped
        ],
        "notes": list(plan.remarks),
    }


def applied_object(row: AppliedSchema) -> dict[str, Any]:
    """Return what ``--json`` prints of an applied schema."""
    return {
        **_schema_object(row.planned),
        "target_id": row.target_id,
        "target_version": row.target_version,
        "outcome": str(row.outcome),
        "reason": row.reason,
    }


def verified_object(row: VerifiedSchema) -> dict[str, Any]:
    """Return what ``--json`` prints of a verified schema."""
    return {
        **_schema_object(row.planned),
        "target_id": row.target_id,
        "outcome": str(row.agreement),
        "reason": row.reason,
    }


def _schema_object(planned: PlannedSchema) -> dict[str, Any]:
    return {
        "subject": planned.source.subject,
        "version": planned.source.version,
        "type": planned.source.schema.type,
        "id": planned.source.id,
        "target_subject": planned.target_subject,
        "naming": str(planned.naming),
    }
