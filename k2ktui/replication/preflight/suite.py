"""The preflight: checks everything that can be known before a start, without changing anything.

Each check is pass, fail, warning or could-not-check, with the reason and a fix. A source principal
with Describe and Read on topics passes; checks that need more rights are could-not-check.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import K2kError, install_command
from k2ktui.log import core
from k2ktui.replication.preflight.checks import (
    Check,
    CheckOutcome,
    error_check,
    exit_code,
    failed_check,
    passed_check,
    unknown_check,
    warning_check,
)
from k2ktui.replication.preflight.clusters import (
    CheckedCluster,
    check_clocks,
    check_ids,
    open_clusters,
)
from k2ktui.replication.preflight.coordinators import check_group_coordinators
from k2ktui.replication.preflight.opposite import check_opposite
from k2ktui.replication.preflight.recorded_clusters import check_recorded_ids
from k2ktui.replication.preflight.rights import check_rights
from k2ktui.replication.preflight.schemas import check_schemas
from k2ktui.replication.preflight.topics import check_topics, read_committed_topics
from k2ktui.replication.spark.environment import use_own_spark
from k2ktui.replication.spark.master import require_master
from k2ktui.replication.spark.settings import (
    is_local,
    require_safe,
    unauthenticated_reason,
    unencrypted_properties,
)
from k2ktui.replication.topics.naming import check_supported
from k2ktui.runtime.java import find_java, java_notes
from k2ktui.text import safe_text

__all__ = [
    "Check",
    "CheckOutcome",
    "each_check",
    "each_cluster_check",
    "exit_code",
    "run_checks",
]

_OLDEST_SPARK = (4, 1)
_SPARK_GUIDE = "See docs/spark-cluster.md."


def run_checks(config: PipelineConfig) -> list[Check]:
    """Check a pipeline, both its clusters and this machine without changing anything.

    Failures, including unreachable clusters, are in the list; none is raised.
    """
    return list(each_check(config))


def each_check(config: PipelineConfig) -> Iterator[Check]:
    """Yield the same checks one by one as they finish; the iterator's end closes connections."""
    with ExitStack() as stack:
        yield _check_supported(config)
        yield _java()
        yield _spark(config)
        yield _spark_security(config)
        yield check_core()
        if config.features.schema_mapping:
            yield check_schemas(config)
        sides = open_clusters(config, stack)
        for side in sides.values():
            yield from side.checks
        yield from _across(config, sides)


def each_cluster_check(config: PipelineConfig) -> Iterator[Check]:
    """Yield only the checks of both clusters; the iterator's end closes connections."""
    with ExitStack() as stack:
        sides = open_clusters(config, stack)
        for side in sides.values():
            yield from side.checks
        if all(side.answers for side in sides.values()):
            yield check_ids(sides["source"], sides["target"])


def _across(config: PipelineConfig, sides: Mapping[str, CheckedCluster]) -> Iterator[Check]:
    silent = [side.label for side in sides.values() if not side.answers]
    if silent:
        what = "cluster identity, clocks, rights, control topics, target topics, retention"
        yield unknown_check(what, f"the {' and the '.join(silent)} cluster did not respond")
        return
    source, target = sides["source"], sides["target"]
    yield check_ids(source, target)
    yield check_recorded_ids(config, source, target)
    yield from check_clocks(source, target)
    committed = read_committed_topics(config, target.cluster)
    yield from check_rights(config, source, target, committed.moved)
    yield from check_group_coordinators(config, source, target)
    yield from check_topics(config, source, target, committed)
    yield from check_opposite(config, source, target)


def _check_supported(config: PipelineConfig) -> Check:
    try:
        check_supported(config)
    except K2kError as error:
        return error_check("pipeline", error, fatal=True)
    return passed_check("pipeline", f"{safe_text(config.name)} uses only supported features")


def _java() -> Check:
    try:
        java = find_java()
    except K2kError as error:
        return error_check("Java", error, fatal=True)
    over = "".join(f"; {note}" for note in java_notes())
    return passed_check("Java", f"{java.version} from {java.origin} ({java.home}){over}")


def _spark(config: PipelineConfig) -> Check:
    unused = use_own_spark(config.spark)
    try:
        version = importlib.metadata.version("pyspark")
        package = importlib.util.find_spec("pyspark.sql")
    except ImportError:
        package = None
    if package is None:
        return failed_check("Spark", "PySpark is not installed", _run_install(), fatal=True)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < _OLDEST_SPARK:
        return failed_check("Spark", f"PySpark {version} is too old", _run_install(), fatal=True)
    try:
        require_safe(config.spark.config.items())
    except K2kError as error:
        return error_check("Spark", error, fatal=True)
    master = safe_text(config.spark.master)
    if is_local(config.spark.master):
        over = f"; {unused}" if unused else ""
        return passed_check("Spark", f"{version}, in this process ({master}){over}")
    try:
        where = require_master(config.spark)
    except K2kError as error:
        return error_check("Spark", error, fatal=True)
    if not where:
        return unknown_check("Spark", f"{version} can be imported; {master} has no address to try")
    return passed_check("Spark", f"{version}, and {master} accepts connections")


def check_core() -> Check:
    """Check whether small batches are merged in C on this machine."""
    try:
        reason = core.why_not()
    except K2kError as error:
        return error_check("batches", error, fatal=True)
    if not reason:
        return passed_check("batches", "the core in C merges small ones")
    return warning_check(
        "batches",
        f"plain Python merges small ones, which takes several times the processor time: {reason}",
        "Install k2ktui again so that its core in C is compiled; see docs/deployment.md#core-in-c.",
    )


def _run_install() -> str:
    return f"Run, in k2ktui's checkout: {install_command()}"


def _spark_security(config: PipelineConfig) -> Check:
    name = "Spark security"
    reason = unauthenticated_reason(config.spark)
    if reason:
        return failed_check(
            name,
            f"{reason}, with the Kafka passwords in them",
            'Set spark.config.spark.authenticate: "true" and spark.authenticate.secret: '
            f"${{env:string:SPARK_SECRET}}, and the same on the cluster. {_SPARK_GUIDE}",
        )
    plain = unencrypted_properties(config.spark)
    if plain:
        return warning_check(
            name,
            f"tasks, with the Kafka passwords in them, are not encrypted: {', '.join(plain)} "
            f"{'is' if len(plain) == 1 else 'are'} off",
            f'Set {" and ".join(plain)} to "true" in spark.config. {_SPARK_GUIDE}',
        )
    if is_local(config.spark.master):
        return passed_check(
            name, "tasks are protected from other users of this machine by a secret"
        )
    return passed_check(name, "tasks are authenticated and encrypted")
