"""Preflight of coordinators: whether both clusters can have those that a pipeline needs."""

from __future__ import annotations

from collections.abc import Iterator

from k2ktui.errors import K2kError
from k2ktui.kafka.admin.coordinators import GROUPS, how_to_allow, why_impossible
from k2ktui.kafka.wire.codes import NOT_AUTHORIZED, Code, code_name
from k2ktui.replication.preflight.checks import Check
from k2ktui.replication.preflight.clusters import ClusterReadings


def check_group_coordinators(readings: ClusterReadings) -> Iterator[Check]:
    """Check that groups can commit offsets on the target, and on the source by its metadata.

    Asking for a coordinator creates its internal topic, and nothing is created on the source. No
    record is copied by a group: this fails no start.
    """
    name = "source group coordinator"
    try:
        if reason := why_impossible(readings.cluster("source"), GROUPS):
            yield Check.warns(name, f"{reason}: no group has offsets there", how_to_allow(GROUPS))
    except K2kError as error:
        yield Check.unknown(name, error.message)
    name = "target group coordinator"
    try:
        reason = why_impossible(readings.cluster("target"), GROUPS)
    except K2kError as error:
        yield Check.unknown(name, error.message)
        return
    if reason:
        what = f"{reason}: no group can be moved"
        yield Check.fails(name, what, f"{how_to_allow(GROUPS)}, before groups are to be moved.")
        return
    group = readings.config.coordination.commit.group
    code = readings.probe("target", "admin").ask_group_coordinator(group)
    if code == Code.NONE:
        yield Check.passes(name, "a broker coordinates groups")
    elif code not in NOT_AUTHORIZED:  # copying needs no right on groups
        what = f"the target responded with {code_name(code)}"
        yield Check.unknown(name, what, "See the state of __consumer_offsets on the target.")
