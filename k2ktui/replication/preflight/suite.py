"""The preflight: checks everything that can be known before a start, without changing anything.

Each check is pass, fail, warning or could-not-check, with the reason and a fix. A source principal
with Describe and Read on topics passes; checks that need more rights are could-not-check.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator, Sequence

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import K2kError, install_command
from k2ktui.log import core
from k2ktui.replication.preflight.checks import Check
from k2ktui.replication.preflight.clusters import (
    ClusterReadings,
    check_clocks,
    check_clusters,
    check_ids,
    check_recorded_ids,
)
from k2ktui.replication.preflight.coordinators import check_group_coordinators
from k2ktui.replication.preflight.opposite import check_opposite
from k2ktui.replication.preflight.rights import check_rights
from k2ktui.replication.preflight.schemas import check_schemas
from k2ktui.replication.preflight.topics import check_topics
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

_OLDEST_SPARK = (4, 1)
_SPARK_GUIDE = "See docs/spark-cluster.md."
_OF_BOTH_CLUSTERS: Sequence[Callable[[ClusterReadings], Iterator[Check]]] = (
    check_ids,
    check_recorded_ids,
    check_clocks,
    check_rights,
    check_group_coordinators,
    check_topics,
    check_opposite,
)


def run_checks(config: PipelineConfig) -> list[Check]:
    """Check a pipeline, both its clusters and this machine without changing anything.

    Failures, including unreachable clusters, are in the list; none is raised.
    """
    return list(each_check(config))


def each_check(config: PipelineConfig) -> Iterator[Check]:
    """Yield the same checks one by one as they finish; the iterator's end closes connections."""
    yield _check_supported(config)
    yield _java()
    yield _spark(config)
    yield _spark_security(config)
    yield check_core()
    if config.features.schema_mapping:
        yield check_schemas(config)
    with ClusterReadings(config) as readings:
        silent = yield from check_clusters(readings)
        if silent:
            what = "cluster identity, clocks, rights, control topics, target topics, retention"
            yield Check.unknown(what, f"the {' and the '.join(silent)} cluster did not respond")
            return
        for check in _OF_BOTH_CLUSTERS:
            yield from check(readings)


def each_cluster_check(config: PipelineConfig) -> Iterator[Check]:
    """Yield only the checks of both clusters; the iterator's end closes connections."""
    with ClusterReadings(config) as readings:
        if not (yield from check_clusters(readings)):
            yield from check_ids(readings)


def _check_supported(config: PipelineConfig) -> Check:
    try:
        check_supported(config)
    except K2kError as error:
        return Check.error("pipeline", error, fatal=True)
    return Check.passes("pipeline", f"{safe_text(config.name)} uses only supported features")


def _java() -> Check:
    try:
        java = find_java()
    except K2kError as error:
        return Check.error("Java", error, fatal=True)
    over = "".join(f"; {note}" for note in java_notes())
    return Check.passes("Java", f"{java.version} from {java.origin} ({java.home}){over}")


def _spark(config: PipelineConfig) -> Check:
    unused = use_own_spark(config.spark)
    try:
        version = importlib.metadata.version("pyspark")
        package = importlib.util.find_spec("pyspark.sql")
    except ImportError:
        package = None
    if package is None:
        return Check.fails("Spark", "PySpark is not installed", _run_install(), fatal=True)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < _OLDEST_SPARK:
        return Check.fails("Spark", f"PySpark {version} is too old", _run_install(), fatal=True)
    try:
        require_safe(config.spark.config.items())
    except K2kError as error:
        return Check.error("Spark", error, fatal=True)
    master = safe_text(config.spark.master)
    if is_local(config.spark.master):
        over = f"; {unused}" if unused else ""
        return Check.passes("Spark", f"{version}, in this process ({master}){over}")
    try:
        where = require_master(config.spark)
    except K2kError as error:
        return Check.error("Spark", error, fatal=True)
    if not where:
        return Check.unknown("Spark", f"{version} can be imported; {master} has no address to try")
    return Check.passes("Spark", f"{version}, and {master} accepts connections")


def check_core() -> Check:
    """Check whether small batches are merged in C on this machine."""
    try:
        reason = core.why_not()
    except K2kError as error:
        return Check.error("batches", error, fatal=True)
    if not reason:
        return Check.passes("batches", "the core in C merges small ones")
    return Check.warns(
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
        return Check.fails(
            name,
            f"{reason}, with the Kafka passwords in them",
            'Set spark.config.spark.authenticate: "true" and spark.authenticate.secret: '
            f"${{env:string:SPARK_SECRET}}, and the same on the cluster. {_SPARK_GUIDE}",
        )
    plain = unencrypted_properties(config.spark)
    if plain:
        return Check.warns(
            name,
            f"tasks, with the Kafka passwords in them, are not encrypted: {', '.join(plain)} "
            f"{'is' if len(plain) == 1 else 'are'} off",
            f'Set {" and ".join(plain)} to "true" in spark.config. {_SPARK_GUIDE}',
        )
    if is_local(config.spark.master):
        return Check.passes(
            name, "tasks are protected from other users of this machine by a secret"
        )
    return Check.passes(name, "tasks are authenticated and encrypted")
