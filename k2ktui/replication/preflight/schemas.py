"""Preflight of schema mapping: both registries respond, and the target has what records need."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ConnectionFailed, K2kError
from k2ktui.registry.mapper import read_mapper_settings
from k2ktui.registry.operations import read_schema_plan
from k2ktui.replication.preflight.checks import Check
from k2ktui.text import counted, safe_message, safe_text

_NAME = "schemas"


def check_schemas(config: PipelineConfig) -> Check:
    """Check the registries of a pipeline that maps schema ids."""
    try:
        plan = read_schema_plan(read_mapper_settings(config))
    except ConnectionFailed as error:
        # A registry that is away stops only partitions whose records have ids not seen before.
        return replace(Check.error(_NAME, error), fatal=False)
    except K2kError as error:
        return Check.error(_NAME, error, fatal=True)
    if plan.conflicts:
        first = plan.conflicts[0]
        return Check.fails(
            _NAME,
            f"{counted(len(plan.conflicts), 'schema')} cannot be registered on the target, for "
            f"example version {first.source.version} of {safe_text(first.source.subject)}: "
            f"{safe_message(first.reason)}; partitions stop before records with them",
            "k2ktui schemas plan shows all of them; see docs/schemas.md.",
        )
    if plan.changes and not config.schema_mapping.auto_register:
        return Check.warns(
            _NAME,
            f"{counted(len(plan.changes), 'schema')} of {len(plan.schemas):,} not registered on "
            "the target; partitions stop before records with them",
            "Run k2ktui schemas apply, or set schemaMapping.autoRegister: enabled.",
        )
    later = f", {len(plan.changes):,} when records need them" if plan.changes else ""
    present = len(plan.schemas) - len(plan.changes)
    return Check.passes(_NAME, f"{counted(present, 'schema')} on the target{later}")
