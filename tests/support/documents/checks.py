"""docs/reference/checks.md: the checks of ``k2ktui check``; and the catalog of those of drills."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import groupby

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.drill.checks.registration import DrillCheck
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from tests.support.documents.markdown import code, table

INTRODUCTION = """\
What `k2ktui check` and a start ask ([Operating](../operating.md)). No check changes anything.
Drills have [checks of their own](../drill-checks.md#catalog).
"""
# Name in the output: what is checked. The test compares the names with the program's.
PREFLIGHT = {
    "drill fence": "No drill keeps the pipeline from starting.",
    "pipeline": "The file asks only for what k2ktui does.",
    "Java": "A Java that Spark runs on is found.",
    "Spark": "PySpark is installed and new enough; a cluster's master accepts connections.",
    "Spark security": "Tasks, which hold Kafka passwords, are authenticated and encrypted.",
    "batches": "Small batches are merged by the core in C.",
    "schemas": "With schema mapping: the target has every schema, or it can be registered.",
    "<side> cluster": "The cluster answers, with the login of the file.",
    "<side> version": "The brokers are new enough for what the pipeline needs.",
    "cluster identity": "Source and target are two clusters.",
    "cluster ids": "Both clusters are those of the pipeline's last run.",
    "<side> clock": "The clock of the brokers and that of this host agree.",
    "rights": "The topics whose rights are checked can be listed.",
    "<side> <role> rights": "The client of that role may do what a run needs.",
    "target transactional ids": "The producer may use the pipeline's transactional ids.",
    "transaction timeout": "The target allows the timeout of the pipeline's transactions.",
    "control topic settings": "The settings of control topics can be read.",
    "source group coordinator": "A broker of the source coordinates groups.",
    "target group coordinator": "A broker of the target coordinates groups.",
    "source topics": "The topics of the file can be described; how many there are.",
    "moved topics": "Which topics a drill has moved to the target: they are not copied.",
    "topics of other programs": "Which topics a pattern leaves out.",
    "topics": "The topics of both clusters can be read.",
    "topic <name>": "The source topic has one target topic that fits.",
    "control topics": "The pipeline's own topics can be planned.",
    "control topic <name>": "A control topic exists with the right settings, or can be created.",
    "positions": "No partition that was copied before has lost its position.",
    "target topics": "How many target topics are as required, or will be created.",
    "target topic <name>": "A problem of one target topic: settings, limits, foreign records.",
    "target settings": "Settings of source topics can be read, to compare them.",
    "dead-letter topic <name>": "It exists without compaction, or can be created.",
    "retention headroom": "How long the source keeps records that are not copied yet.",
    "opposite pipeline": "In both directions: the other pipeline's mode fits this one's.",
    "ring of clusters": "In both directions: no third cluster is copied to both.",
    "pipeline file": "The runs of the pipeline have the same name and copy by the same rules.",
    "holds": "Which topics or partitions are held.",
    "needed mappings": "When the first mapping that a group needs expires.",
    "releases": "Runs that work are of releases that one of this may join.",
    "other runners": "Before a job: whether the pipeline runs on another host.",
}


def body() -> str:
    """Return the page without its heading."""
    rows = [(code(name), meaning.removesuffix(".")) for name, meaning in PREFLIGHT.items()]
    return "\n".join([INTRODUCTION, table(("check", "what is checked"), rows)])


def drill_checks() -> str:
    """Return one table for each module with checks of drills, in the order of their first ids."""
    modules = list(dict.fromkeys(map(_module, CATALOG.values())))
    checks = sorted(CATALOG.values(), key=lambda check: modules.index(_module(check)))
    lines = []
    for module, rows in groupby(checks, _module):
        lines += [
            f"### {module.rpartition('.')[2].replace('_', '-').capitalize()}",
            "",
            str(sys.modules[module].__doc__),
            "",
            table(("id", "check", "passes if", "asked by: in phases", "stops"), map(_row, rows)),
        ]
    return "\n".join(lines)


def _kinds(kinds: Iterable[DrillKind]) -> str:
    chosen = [kind for kind in DrillKind if kind in kinds]
    return "all" if len(chosen) == len(DrillKind) else ", ".join(chosen)


def _rule(check: DrillCheck) -> str:
    """The first paragraph of the check's docstring: what follows "Pass if"."""
    sentence = " ".join((check.ask.__doc__ or "").split("\n\n")[0].split())
    assert sentence.startswith("Pass if ") and sentence.endswith("."), check.id
    return sentence.removeprefix("Pass if ").removesuffix(".")


def _row(check: DrillCheck) -> tuple[str, ...]:
    kinds: dict[tuple[DrillPhase, ...], list[DrillKind]] = {}
    for kind in DrillKind:
        if phases := check.phases_of(kind):
            kinds.setdefault(phases, []).append(kind)
    asked = "; ".join(f"{_kinds(k)}: {', '.join(p)}" for p, k in kinds.items())
    return check.id, check.title, _rule(check), asked, _kinds(check.blocks) or "—"


def _module(check: DrillCheck) -> str:
    return check.ask.__module__
