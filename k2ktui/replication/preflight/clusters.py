"""Preflight of the clusters: reachability, cluster id, version and clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from k2ktui.config.clusters import ClusterConfig, Role
from k2ktui.config.model import PipelineConfig
from k2ktui.errors import K2kError, NoAnswer
from k2ktui.faults import fault
from k2ktui.kafka.admin.probe import READING, TRANSACTIONS, WRITING, NotDisclosed, Probe
from k2ktui.kafka.admin.topics import broker_count
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.unreachable import await_open
from k2ktui.replication.preflight.checks import (
    Check,
    error_check,
    failed_check,
    passed_check,
    unknown_check,
)
from k2ktui.text import counted, safe_text

_CONNECT_S = 10.0
_CLOCK_TOLERANCE_S = 60.0
_ROLES: Mapping[str, tuple[Role, ...]] = {
    "source": ("consumer", "admin"),
    "target": ("producer", "consumer", "admin"),
}


@dataclass(slots=True)
class CheckedCluster:
    """One cluster during the preflight.

    Attributes:
        label: ``source`` or ``target``.
        cluster: its admin client.
        probes: one connection per client role; roles with equal properties share one.
        checks: results so far.
        answers: whether every role could connect.
        cluster_id: the cluster's id.
    """

    label: str
    cluster: Cluster
    probes: dict[Role, Probe] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    answers: bool = False
    cluster_id: str = ""


def open_clusters(config: PipelineConfig, stack: ExitStack) -> dict[str, CheckedCluster]:
    """Connect to both clusters in every role; ``stack`` closes the connections."""
    sides = {
        label: CheckedCluster(label, Cluster(getattr(config, label), label))
        for label in ("source", "target")
    }
    with ThreadPoolExecutor(len(sides)) as pool:
        for side in sides.values():
            pool.submit(_reach, config, side)
    for side in sides.values():
        for probe in {id(probe): probe for probe in side.probes.values()}.values():
            stack.callback(probe.close)
    return sides


def _reach(config: PipelineConfig, side: CheckedCluster) -> None:
    name = f"{side.label} cluster"
    try:
        # Connecting in every role takes twice as long to find that nothing listens.
        await_open(side.label, side.cluster.config.bootstrap_servers)
        _connect(side)
        side.cluster_id = side.cluster.cluster_id()
        brokers = broker_count(side.cluster)
    except K2kError as error:
        side.checks.append(error_check(name, error, fatal=True))
        return
    except Exception as error:  # no thread may end without a result
        side.checks.append(error_check(name, fault(error), fatal=True))
        return
    side.answers = True
    where = safe_text(side.cluster.config.bootstrap_servers)
    detail = f"{counted(brokers, 'broker')} at {where}, cluster id {safe_text(side.cluster_id)}"
    side.checks += [passed_check(name, detail), _version(config, side)]


def _connect(side: CheckedCluster) -> None:
    same: dict[tuple[tuple[str, str], ...], Probe] = {}
    for role in _ROLES[side.label]:
        key = tuple(sorted(side.cluster.config.properties(role).items()))
        if key not in same:
            same[key] = _open(side.cluster.config, role, side.label)
        side.probes[role] = same[key]


def _open(config: ClusterConfig, role: Role, label: str) -> Probe:
    probe = Probe(wire(config, role), label)
    try:
        probe.open(_CONNECT_S)
    except NoAnswer:  # to no role
        probe.close()
        raise
    except K2kError as error:
        probe.close()
        raise type(error)(f"{role}: {error.message}", hint=error.hint) from error
    except BaseException:
        probe.close()
        raise
    return probe


def _version(config: PipelineConfig, side: CheckedCluster) -> Check:
    name, reading = f"{side.label} version", side.label == "source"
    probe = side.probes["consumer" if reading else "producer"]
    floor = READING if reading else WRITING
    if not reading and config.features.exactly_once:
        floor = {**WRITING, **TRANSACTIONS}
    missing = probe.too_old_for(floor)
    spoken = f"supports the protocol of Kafka {probe.version}"
    if not missing:
        return passed_check(name, spoken)
    hint = "Upgrade its brokers to Kafka 2.5 or later"
    if not set(missing) - {request.__name__ for request in TRANSACTIONS}:
        hint += ", or set features.exactlyOnce: disabled"
    return failed_check(name, f"{spoken}, too old for {', '.join(missing)}", f"{hint}.", fatal=True)


def check_ids(source: CheckedCluster, target: CheckedCluster) -> Check:
    """Check that source and target are different clusters."""
    name = "cluster identity"
    if source.cluster_id != target.cluster_id:
        return passed_check(name, "source and target are different clusters")
    return failed_check(
        name,
        f"source and target are the same cluster ({safe_text(source.cluster_id)}): each topic "
        "would be copied onto itself without end",
        "Correct bootstrap.servers of source.kafka or target.kafka.",
        fatal=True,
    )


def check_clocks(source: CheckedCluster, target: CheckedCluster) -> Iterator[Check]:
    """Compare each cluster's clock, if it can be read, with this machine's.

    Ages, lag in seconds and retention on the target combine timestamps of both clusters.
    """
    for side in (source, target):
        name = f"{side.label} clock"
        try:
            ahead = side.probes["admin"].clock_ahead()
        except NotDisclosed as reason:
            yield unknown_check(
                name, f"{reason}; Kafka offers no other way to read it without writing"
            )
            continue
        word = "ahead of" if ahead >= 0 else "behind"
        offset = f"{abs(ahead):,.3f} s {word} this machine's"
        if abs(ahead) <= _CLOCK_TOLERANCE_S:
            yield passed_check(name, offset)
        else:
            yield failed_check(
                name,
                f"{offset}: lag in seconds and retention by time will be off by that much",
                "Synchronize the clocks (NTP) of this machine and of the cluster's nodes.",
            )
