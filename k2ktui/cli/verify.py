"""``k2ktui verify``: verify by record content that groups resume at the right record."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import file_option, json_option, load_flow, timeout_option
from k2ktui.cli.terminal.tables import note_pair, print_table, read_beside
from k2ktui.engine.name_pattern import pattern_of
from k2ktui.errors import ConfigError, ExitCode
from k2ktui.present.columns import Column, text_column
from k2ktui.text import counted, safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.sync.operations import VerificationReport
    from k2ktui.sync.verify.verification import ContentCheck

_SHOWN = 200
_REASONS = 3


@click.command(help="Compare each group's next record, and sampled ranges, on both clusters.")
@file_option
@json_option
@click.option(
    "--sample", default=20, show_default=True, metavar="N", help="Number of sampled ranges."
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    help="Seed of the sample; the same seed selects the same ranges.",
)
@click.option(
    "--translated",
    is_flag=True,
    help="Compare at the translated offsets instead of the committed ones.",
)
@click.option(
    "--plan",
    "plan_file",
    metavar="FILE",
    help="Compare at the offsets of a plan file, applied or not.",
)
@click.option(
    "--group", "group", metavar="REGEX", help="Groups to include; the whole name must match."
)
@timeout_option(120.0, "the comparison")
def command(
    files: tuple[str, ...],
    as_json: bool,
    sample: int,
    seed: int,
    translated: bool,
    plan_file: str | None,
    group: str | None,
    timeout: float,
) -> int:
    """Verify and print; findings if a record differs, not if a group only reads records again."""
    from k2ktui.sync.moves.plan_files import read_plan
    from k2ktui.sync.operations import verify_content

    if plan_file and translated:
        raise ConfigError("--plan and --translated cannot be combined")
    plan = read_plan(Path(plan_file), now=0) if plan_file else None
    flow = load_flow(files)
    pair = read_beside(flow.config)
    proof = verify_content(
        flow,
        group=pattern_of("--group", group),
        translated=translated,
        plan=plan,
        sample=sample,
        seed=seed,
        timeout=timeout,
    )
    result = proof.verification
    note_pair(flow.config, pair())
    if as_json:
        click.echo(json.dumps({"pipeline": flow.config.name, **verification_object(proof)}))
    else:
        print_notes(proof.notes)
        show_verification(flow.config.name, proof, sampled=sample > 0)
    different = result.positions.different + result.ranges.different
    return int(ExitCode.FINDINGS if different else ExitCode.OK)


def verification_object(proof: VerificationReport) -> dict[str, Any]:
    """Return the verification as ``k2ktui verify --json`` prints it."""
    return {
        **proof.verification.as_json(),
        "not_compared": [
            {"group": row.group, "topic": row.topic, "partition": row.partition, "reason": why}
            for row, why in proof.unasked
        ],
    }


def show_verification(pipeline: str, proof: VerificationReport, *, sampled: bool) -> None:
    """Print the differences, and the totals; ``sampled`` if records were compared too."""
    from k2ktui.sync.verify.record_comparison import ComparisonOutcome

    result = proof.verification
    notable = [
        check for check in result.checks if check.outcome is not ComparisonOutcome.SAME or check.why
    ]
    if notable:
        title = f"{safe_text(pipeline)}: differences and records that could not be compared"
        print_table(title, _COLUMNS, notable, most=_SHOWN)
    for row, why in proof.unasked[:_SHOWN]:
        where = safe_text(f"{row.group}: {row.topic}-{row.partition}")
        click.echo(f"not compared: {where}: {safe_message(why)}", err=True)
    for name, totals, reasons in (
        ("next records of groups", result.positions, result.unchecked_positions),
        ("sampled records", result.records, result.unchecked_records),
    ):
        again = f"{totals.rereads:,} re-read, " if totals.rereads else ""
        click.echo(
            f"{name}: {totals.same:,} the same, {again}{totals.different:,} different, "
            f"{totals.could_not_check:,} could not be checked{_reasons_text(reasons)}"
        )
    if proof.unasked:
        reasons = Counter(why for _, why in proof.unasked)
        click.echo(
            f"positions of groups that were not compared: {len(proof.unasked):,}"
            f"{_reasons_text(reasons)}"
        )
    if sampled and result.sampled_from < result.mapped:
        click.echo(
            f"The sample is of the newest {result.sampled_from:,} of "
            f"{counted(result.mapped, 'mapped record')}: older ranges are not in memory "
            "(offsetMapping.retention.count)."
        )


def _reasons_text(reasons: Counter[str]) -> str:
    """Return the most frequent reasons with their counts."""
    if not reasons:
        return ""
    most = [f"{count:,} {safe_message(why)}" for why, count in reasons.most_common(_REASONS)]
    rest = reasons.total() - sum(count for _, count in reasons.most_common(_REASONS))
    return f" ({'; '.join([*most, *([f'{rest:,} for other reasons'] if rest else [])])})"


_COLUMNS: tuple[Column[ContentCheck], ...] = (
    text_column("check", lambda check: check.what, left=True),
    text_column("outcome", lambda check: str(check.outcome), left=True),
    text_column("reason", lambda check: safe_message(check.why), left=True),
)
