"""What clusters say of themselves to ``k2ktui init``, and what the checks of its file find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.errors import ConnectionFailed
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.preflight.survey import ClusterSurvey
from tests.support.console.views import SOURCE_ID, TARGET_ID

TOPICS = {"clicks": 4, "orders.eu": 2, "orders.us": 2, "payments": 1}
LEFT_OUT = ("__consumer_offsets", "_schemas")
PASSED = [
    Check.passes("source cluster", "src:9092 is up"),
    Check("topics", CheckOutcome.WARN, "clicks has no records", "Nothing to do."),
]
FAILED = [Check("rights", CheckOutcome.FAIL, "no Read on topic clicks", "Grant Read on clicks.")]

Survey = Callable[[PipelineConfig, Side], ClusterSurvey]


def surveyed(
    topics: Mapping[str, int] = TOPICS, *, ids: tuple[str, str] = (SOURCE_ID, TARGET_ID)
) -> Survey:
    """Return a reading of both clusters; hosts that are called ``gone`` do not answer."""

    def survey(config: PipelineConfig, side: Side) -> ClusterSurvey:
        servers = getattr(config, side).bootstrap_servers
        if servers.startswith("gone"):
            raise ConnectionFailed(
                f"no broker of the {side} cluster accepts connections: {servers}"
            )
        if side == "source":
            return ClusterSurvey(servers, ids[0], "4.1", 3, topics, LEFT_OUT, 5)
        return ClusterSurvey(servers, ids[1], "", 1, {"clicks": 1}, (), None)

    return survey


def answers(survey: Survey | None = None, checks: list[Check] = PASSED) -> dict[str, Any]:
    """Return what takes the place of readings, by the functions' full names."""

    def await_open(side: Side, servers: str) -> None:
        if servers.startswith("gone"):
            raise ConnectionFailed(f"no broker of the {side} cluster accepts connections")

    beside = ("drill.guard.check_fence", "other_files.check_file", "holds.check_holds")
    return {
        "k2ktui.replication.preflight.survey.survey_cluster": survey or surveyed(),
        "k2ktui.replication.preflight.survey.has_pipeline": False,
        "k2ktui.replication.preflight.suite.run_checks": checks,
        "k2ktui.kafka.unreachable.await_open": await_open,
        "k2ktui.jobs.checks.check_releases": Check.passes("none", "none"),
        **{
            f"k2ktui.sync.{name}": Check.passes("none", "none")
            for name in (*beside, "mapping.keeper.check_mappings")
        },
    }
