"""``k2ktui schemas``: the schemas that records need in the target's registry."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import (
    access_to,
    file_option,
    json_option,
    load_pipeline,
    unlock_option,
)
from k2ktui.cli.terminal.tables import MOST, print_table
from k2ktui.engine.access import require
from k2ktui.engine.schemas.plan import SchemaPlan
from k2ktui.errors import ExitCode
from k2ktui.present.schemas import (
    APPLIED,
    PLANNED,
    VERIFIED,
    applied_object,
    plan_object,
    plan_text,
    results_text,
    verified_object,
)
from k2ktui.registry.mapper import read_mapper_settings
from k2ktui.registry.operations import (
    SchemaAgreement,
    apply_schema_plan,
    read_schema_plan,
    verify_schemas,
)
from k2ktui.registry.registering import AppliedSchema, SchemaOutcome
from k2ktui.text import counted, safe_message, safe_text

F = TypeVar("F", bound=Callable[..., Any])

_NAMED = 5


def deleted_option(function: F) -> F:
    """Add ``--deleted``."""
    return click.option(
        "--deleted",
        is_flag=True,
        help="Include versions that were deleted on the source; old records may have their ids.",
    )(function)


@click.group(help="Plan, register and verify the schemas that records need on the target.")
def command() -> None:
    """Docs: ``docs/schemas.md``."""


@command.command("plan", help="Show what would be registered, under which id; change nothing.")
@file_option
@deleted_option
@json_option
def plan(files: tuple[str, ...], deleted: bool, as_json: bool) -> int:
    """Read both registries and print; conflicts have exit code 1."""
    config = load_pipeline(files)
    schema_plan = read_schema_plan(read_mapper_settings(config), deleted=deleted)
    if as_json:
        click.echo(json.dumps({"pipeline": config.name, **plan_object(schema_plan)}, indent=2))
    else:
        show_schema_plan(config.name, schema_plan)
    return int(ExitCode.FINDINGS if schema_plan.conflicts else ExitCode.OK)


@command.command("apply", help="Register the schemas of the plan in the target's registry.")
@file_option
@deleted_option
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@unlock_option
@json_option
def apply(files: tuple[str, ...], deleted: bool, yes: bool, unlock: bool, as_json: bool) -> int:
    """Register; the same again changes nothing; a partial result has its own exit code."""
    config = load_pipeline(files)
    require(access_to(config, unlock=unlock), "registering schemas")
    settings = read_mapper_settings(config)
    schema_plan = read_schema_plan(settings, deleted=deleted)
    if not as_json:
        show_schema_plan(config.name, schema_plan)
    if not schema_plan.changes and not schema_plan.compatibility:
        click.echo("Nothing to register.", err=True)
        if as_json:
            click.echo(json.dumps({"pipeline": config.name, "schemas": []}))
        return int(ExitCode.FINDINGS if schema_plan.conflicts else ExitCode.OK)
    what = f"register {counted(len(schema_plan.changes), 'schema')}"
    if schema_plan.compatibility:
        what += f" and set {counted(len(schema_plan.compatibility), 'compatibility level')}"
    confirm(config.name, f"{what} on the target", yes=yes)
    rows = apply_schema_plan(settings, schema_plan)
    if as_json:
        schemas = [applied_object(row) for row in rows]
        click.echo(json.dumps({"pipeline": config.name, "schemas": schemas}, indent=2))
    else:
        bad_first = sorted(rows, key=lambda row: row.outcome is not SchemaOutcome.FAILED)
        print_table(safe_text(config.name), APPLIED, bad_first, most=MOST)
        click.echo(results_text(rows))
    return int(_exit_code(rows))


@command.command("verify", help="Compare the schemas of both registries by their content.")
@file_option
@deleted_option
@json_option
def verify(files: tuple[str, ...], deleted: bool, as_json: bool) -> int:
    """Read both registries and compare; a schema that is missing or differs has exit code 1."""
    config = load_pipeline(files)
    rows = verify_schemas(read_mapper_settings(config), deleted=deleted)
    bad = [row for row in rows if row.agreement is not SchemaAgreement.EQUAL]
    if as_json:
        schemas = [verified_object(row) for row in rows]
        click.echo(json.dumps({"pipeline": config.name, "schemas": schemas}, indent=2))
    else:
        first = sorted(rows, key=lambda row: row.agreement is SchemaAgreement.EQUAL)
        print_table(safe_text(config.name), VERIFIED, first, most=MOST)
        equal = f"{len(rows) - len(bad):,} of {counted(len(rows), 'schema')} equal"
        click.echo(f"{equal}." if not bad else f"{equal}; {len(bad):,} missing or different.")
    return int(ExitCode.FINDINGS if bad else ExitCode.OK)


def show_schema_plan(pipeline: str, schema_plan: SchemaPlan) -> None:
    """Print a plan as a table, what it leaves out, and its sum."""
    print_table(safe_text(pipeline), PLANNED, schema_plan.schemas, most=MOST)
    for setting in schema_plan.compatibility:
        click.echo(
            f"Sets compatibility {safe_text(setting.level)} on {safe_text(setting.subject)}."
        )
    print_notes(list(map(safe_message, schema_plan.remarks)))
    if schema_plan.unmapped:
        names = ", ".join(safe_text(subject.name) for subject in schema_plan.unmapped[:_NAMED])
        more = (
            f" and {len(schema_plan.unmapped) - _NAMED:,} more"
            if len(schema_plan.unmapped) > _NAMED
            else ""
        )
        click.echo(f"Not mapped: {names}{more} (--json has the reasons).")
    click.echo(plan_text(schema_plan))


def _exit_code(rows: list[AppliedSchema]) -> ExitCode:
    done = [row for row in rows if row.outcome is SchemaOutcome.REGISTERED]
    open_rows = [
        row for row in rows if row.outcome in (SchemaOutcome.FAILED, SchemaOutcome.UNTRIED)
    ]
    if not open_rows:
        return ExitCode.OK
    return ExitCode.PARTIAL if done else ExitCode.FINDINGS
