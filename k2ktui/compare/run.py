"""Compare a pipeline's source and target, part by part, in this process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from k2ktui.compare.done_parts import DoneParts
from k2ktui.compare.log_reader import Pace
from k2ktui.compare.plan import ComparisonChoice, ComparisonPlan, plan_comparison
from k2ktui.compare.tasks import compare_parts, make_task
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.compare.outcomes import PartResult, join_results
from k2ktui.engine.compare.parts import ComparisonPart
from k2ktui.engine.compare.record import sum_up_comparison
from k2ktui.engine.compare.report import ComparisonReport
from k2ktui.errors import Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.progress import long_step
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.plans import whoami
from k2ktui.sync.store import StateStore
from k2ktui.sync.verify.schema_id_comparison import open_record_comparison

log = logging.getLogger(__name__)

# Fewer offsets are compared here before Spark has started.
_SPARK_FROM = 1_000_000


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """How a comparison is run.

    Attributes:
        choice: what is compared.
        bytes_per_s: bound of what is read on both sides together; None for none.
        resumes: whether parts that an earlier run of the same choice has compared are not again;
            None to refuse if there are any.
        in_spark: whether Spark compares; None if that depends on the number of offsets.
        is_stopped: asked after each batch; the comparison ends with Refused once it is true.
    """

    choice: ComparisonChoice
    bytes_per_s: float | None = None
    resumes: bool | None = None
    in_spark: bool | None = None
    is_stopped: Callable[[], bool] = lambda: False


@contextmanager
def compare_pipeline(
    flow: Flow, options: ComparisonOptions
) -> Iterator[tuple[ComparisonReport, DoneParts]]:
    """Compare every retained record of the chosen topics; changes nothing.

    A context with the report, and with what was compared, which a file of this user keeps for a
    later run that resumes. Who has the report where it was wanted must ``forget`` that: until then,
    hours of reading would be lost if the report cannot be written.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer, or the source is another one.
        NothingCopied: nothing has been replicated yet.
        ConfigError: no topic that is copied is chosen.
        Refused: what is done cannot be kept, or another run keeps it; an earlier run has compared
            some of it, and it is not chosen what becomes of that; or it was stopped.
    """
    began_at = time.time()
    with long_step("positions and mappings are read"):
        plan = plan_comparison(flow, options.choice, partial(_why_no_spark, options))
    log.info("comparison of %d parts", len(plan.parts))
    with DoneParts(flow.config, plan, options.choice, resumes=options.resumes) as done:
        results, read_bytes, notes = _compare_parts(flow.config, plan, options, done)
        report = ComparisonReport(
            pipeline=flow.config.name,
            source_cluster=plan.source_cluster,
            target_cluster=plan.target_cluster,
            began_at=began_at,
            ended_at=time.time(),
            since_ms=options.choice.since_ms,
            sample=options.choice.sample,
            both_ways=plan.both_ways,
            results=join_results(results),
            left_out=plan.left_out,
            ignored={topic: parts for topic, parts in plan.ignored.items() if parts},
            read_bytes=read_bytes,
            notes=(*plan.notes, *notes, *_resumed_note(done.resumed, len(plan.parts))),
            topics=options.choice.pattern,
        )
        yield report, done


def keep_result(config: PipelineConfig, report: ComparisonReport) -> None:
    """Write the result in a few numbers to the pipeline's state topic, in place of the last one.

    Raises:
        Refused: the file has ``readOnly``, or the target does not let it be written.
        ConnectionFailed, TimedOut: the target does not answer.
    """
    if config.read_only:
        raise Refused("the file has readOnly")
    target = target_cluster(config)
    store = StateStore(config, target)
    try:
        store.put([sum_up_comparison(report, whoami())])
    finally:
        store.close()
        target.disconnect()


def _resumed_note(resumed: int, total: int) -> list[str]:
    return [f"{resumed:,} of {total:,} parts were compared by an earlier run"] if resumed else []


def _compare_parts(
    config: PipelineConfig, plan: ComparisonPlan, options: ComparisonOptions, done: DoneParts
) -> tuple[list[PartResult], int, list[str]]:
    """Compare the parts that are not done.

    Returns:
        The results of all parts, the bytes that were read, and notes.
    """
    known = [(part, done.find(part)) for part in plan.parts]
    results = [result for _, result in known if result is not None]
    left = [part for part, result in known if result is None]
    in_spark, here, notes = _share(config, plan, left, options)
    read_bytes, compared = 0, 0
    with long_step("offsets compared", sum(part.end - part.first for part in left)) as report:

        def tell(offsets: int) -> None:
            if options.is_stopped():
                raise Refused("the comparison was stopped", hint="Compare again to continue it.")
            report(offsets)

        def keep(part: ComparisonPart, result: PartResult) -> None:
            nonlocal compared
            done.add(part, result)
            results.append(result)
            compared += part.end - part.first
            tell(compared)

        if in_spark:
            from k2ktui.compare.spark import compare_in_spark

            for task, made in compare_in_spark(
                config, in_spark, options.bytes_per_s, plan.transforms, lambda: tell(compared)
            ):
                read_bytes += made.read_bytes
                for part, result in zip(task.parts, made.results, strict=True):
                    keep(part, result)
        pace = Pace(options.bytes_per_s)
        with open_record_comparison(config) as records:
            compared_here = compare_parts(
                make_task(config, here),
                pace,
                records,
                partial(_maps_ids, config),
                lambda offsets: tell(compared + offsets),
            )
            for part, result in zip(here, compared_here, strict=True):
                keep(part, result)
    return results, read_bytes + pace.bytes, notes


def _why_no_spark(options: ComparisonOptions) -> str:
    """Return why no transform can be run again; "" if one can."""
    if options.in_spark is False:
        return "Spark runs them, and --local does without"
    from k2ktui.compare.spark import why_no_spark

    return "" if options.in_spark else why_no_spark(transforms=True)


def _share(
    config: PipelineConfig,
    plan: ComparisonPlan,
    parts: list[ComparisonPart],
    options: ComparisonOptions,
) -> tuple[list[ComparisonPart], list[ComparisonPart], list[str]]:
    """Return the parts for Spark, those for this process, and notes.

    Topics with mapped schema ids are compared here: executors get no rights to the registries.
    """
    needs_spark = [part for part in parts if part.source.topic in plan.transforms]
    others = [part for part in parts if part.source.topic not in plan.transforms]
    is_large = sum(part.end - part.first for part in others) >= _SPARK_FROM
    if not others or not (is_large if options.in_spark is None else options.in_spark):
        return needs_spark, others, []
    from k2ktui.compare.spark import why_no_spark

    why = "" if options.in_spark else why_no_spark()
    if why:
        return needs_spark, others, [f"one process compares, which takes longer: {why}"]
    mapped = {topic for topic in {part.source.topic for part in others} if _maps_ids(config, topic)}
    return (
        needs_spark + [part for part in others if part.source.topic not in mapped],
        [part for part in others if part.source.topic in mapped],
        [],
    )


def _maps_ids(config: PipelineConfig, topic: str) -> bool:
    return config.schema_rule_for(topic) is not None
