"""``k2ktui schemas``: the schemas that records need in the target's registry."""

from __future__ import annotations

import json

import click

from k2ktui.cli.changes import Change, ChangeFlags, change_flags, run_change
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import allowed_to, load_pipeline
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.tables import MOST, print_json, print_table
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

_NAMED = 5
deleted_option = options.flag(
    "--deleted", "Include versions that were deleted on the source; old records may have their ids."
)


@click.group(help="Plan, register and verify the schemas that records need on the target.")
def schemas() -> None:
    """Docs: ``docs/schemas.md``."""


@schemas.command(help="Show what would be registered, under which id; change nothing.")
@options.file
@deleted_option
@options.json
def plan(files: tuple[str, ...], deleted: bool, as_json: bool) -> int:
    """Read both registries and print; conflicts have exit code 1."""
    config = load_pipeline(files)
    schema_plan = read_schema_plan(read_mapper_settings(config), deleted=deleted)
    if as_json:
        print_json({"pipeline": config.name, **plan_object(schema_plan)}, indent=2)
    else:
        show_schema_plan(config.name, schema_plan)
    return int(ExitCode.FINDINGS if schema_plan.conflicts else ExitCode.OK)


@schemas.command(help="Register the schemas of the plan in the target's registry.")
@options.file
@deleted_option
@options.yes
@options.unlock
@options.json
@change_flags
def apply(files: tuple[str, ...], deleted: bool, flags: ChangeFlags) -> int:
    """Register; the same again changes nothing; a partial result has its own exit code."""
    config = load_pipeline(files)
    allowed_to(config, "registering schemas", unlock=flags.unlock)
    settings = read_mapper_settings(config)
    made = read_schema_plan(settings, deleted=deleted)
    effect = f"register {counted(len(made.changes), 'schema')}"
    if made.compatibility:
        effect += f" and set {counted(len(made.compatibility), 'compatibility level')}"

    def report(rows: list[AppliedSchema]) -> None:
        bad_first = sorted(rows, key=lambda row: row.outcome is not SchemaOutcome.FAILED)
        print_table(safe_text(config.name), APPLIED, bad_first, most=MOST)
        click.echo(results_text(rows))

    def finish(rows: list[AppliedSchema] | None) -> int:
        if rows is None:
            return ExitCode.FINDINGS if made.conflicts else ExitCode.OK
        outcomes = {row.outcome for row in rows}
        if not outcomes & {SchemaOutcome.FAILED, SchemaOutcome.UNTRIED}:
            return ExitCode.OK
        return ExitCode.PARTIAL if SchemaOutcome.REGISTERED in outcomes else ExitCode.FINDINGS

    change: Change[list[AppliedSchema]] = Change(
        config.name,
        f"{effect} on the target" if made.changes or made.compatibility else "",
        show=lambda: show_schema_plan(config.name, made),
        apply=lambda: apply_schema_plan(settings, made),
        report=report,
        as_json=lambda rows: json.dumps(
            {"pipeline": config.name, "schemas": [applied_object(row) for row in rows or ()]},
            indent=None if rows is None else 2,
        ),
        finish=finish,
        nothing="Nothing to register.",
        notes_nothing=True,
    )
    return run_change(change, flags)


@schemas.command(help="Compare the schemas of both registries by their content.")
@options.file
@deleted_option
@options.json
def verify(files: tuple[str, ...], deleted: bool, as_json: bool) -> int:
    """Read both registries and compare; a schema that is missing or differs has exit code 1."""
    config = load_pipeline(files)
    rows = verify_schemas(read_mapper_settings(config), deleted=deleted)
    bad = [row for row in rows if row.agreement is not SchemaAgreement.EQUAL]
    if as_json:
        printed = {"pipeline": config.name, "schemas": [verified_object(row) for row in rows]}
        print_json(printed, indent=2)
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
