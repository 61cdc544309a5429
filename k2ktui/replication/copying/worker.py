"""Entry point of Spark tasks: runs one slot's lap on connections kept by the worker process."""

from __future__ import annotations

import contextlib
import logging
import pickle
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

from k2ktui import diagnostics
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.errors import ConnectionFailed, K2kError, LoginFailed
from k2ktui.kafka.auth.logins import RENEWAL
from k2ktui.kafka.wire.cluster import CoordinatorError, Loop, NotSent, OutcomeUnknown, Wire
from k2ktui.replication.copying.batch_origins import BatchOrigins
from k2ktui.replication.copying.kept_readings import KeptReadings
from k2ktui.replication.copying.known_schemas import KnownSchemas
from k2ktui.replication.copying.lap_failures import task_faults
from k2ktui.replication.copying.slot import SlotCopier
from k2ktui.replication.copying.slot_task import LapOutcome, OppositePipeline, SlotResult, SlotTask
from k2ktui.secret_values import remember_secrets

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_S = 15.0
_T = TypeVar("_T")

#: Connection options of the source and of the target: ``kafka.properties.translation.wire``.
BothOptions = tuple[Mapping[str, Any], Mapping[str, Any]]


class Connections:
    """An event loop with a connection to each cluster."""

    def __init__(self, options: BothOptions) -> None:
        source, target = options
        self.loop = Loop()
        self.source = Wire(self.loop, source, "source", "")
        self.target = Wire(self.loop, target, "target", "")
        self.readings = KeptReadings(self.source)

    def require(self, clusters: ClusterPair) -> None:
        """Let only these clusters answer from now on; raises OtherCluster."""
        self.source.require(clusters.source)
        self.target.require(clusters.target)

    async def open(self) -> None:
        await self.source.open(_CONNECT_TIMEOUT_S, patient=True)
        await self.target.open(_CONNECT_TIMEOUT_S, patient=True)

    def close(self) -> None:
        self.source.close()
        self.target.close()
        self.loop.close()


Work = Callable[[Connections], Coroutine[Any, Any, _T]]

# A worker process runs one task at a time, so the next lap can reuse the connections. With them,
# the name of their options with logins and certificates: these may have been renewed.
_kept: dict[str, tuple[str, Connections]] = {}
_RENEWED = ("sasl_", "ssl_", RENEWAL)
_known_schemas: dict[str, KnownSchemas] = {}
_known_origins: dict[tuple[str, OppositePipeline], BatchOrigins] = {}


def open_connections(options: BothOptions) -> None:
    """Connect ahead of the first lap; failures are ignored, because the lap reports them."""
    with contextlib.suppress(Exception):
        _connections(options)


def run_pickled(pickled: bytes, options: BothOptions) -> SlotResult:
    """Run one lap of one slot, as ``run_slot`` does, of a pickled task."""
    task: SlotTask = pickle.loads(pickled)  # noqa: S301 - the driver wrote it
    return run_slot(task, options)


def run_slot(task: SlotTask, options: BothOptions) -> SlotResult:
    """Run one lap of one slot; never raises, as the result has the outcome."""
    origins, schemas = known_origins(task, options), known_schemas(task)

    def copy(to: Connections) -> Coroutine[Any, Any, SlotResult]:
        return SlotCopier(task, to.source, to.target, origins, schemas, to.readings).run()

    return run_lap(task, options, copy)


def run_lap(task: SlotTask, options: BothOptions, lap: Work[SlotResult]) -> SlotResult:
    """Run a lap on connections to both clusters, as ``run_slot`` does."""
    try:
        result = run_connected(options, lap, task.clusters)
    except LoginFailed as error:
        result = refused_result(task, error)
    except (ConnectionFailed, NotSent, OutcomeUnknown) as error:
        log.info("slot %d: %s", task.slot, error)
        result = SlotResult(task.slot, LapOutcome.FAILED, {}, error=str(error))
    except Exception as error:  # report it to the driver; Spark would only print a traceback
        log.exception("slot %d: unexpected %s", task.slot, type(error).__name__)
        result = SlotResult(task.slot, LapOutcome.FAILED, {}, error=_headline(error))
    if result.outcome is not LapOutcome.DONE:
        _disconnect(options)
    return result


def refused_result(task: SlotTask, error: LoginFailed) -> SlotResult:
    """Return the result of a lap that could not connect: a login or a certificate was refused."""
    faults = tuple(task_faults(task, error))
    return SlotResult(task.slot, LapOutcome.FAILED, {}, faults, error=error.message)


def _headline(error: Exception) -> str:
    """Return what an operator may see; another exception's text may quote a record."""
    if isinstance(error, (K2kError, CoordinatorError)):
        return f"{type(error).__name__}: {error}"
    return f"internal error in k2ktui ({type(error).__name__})"


def run_connected(options: BothOptions, work: Work[_T], clusters: ClusterPair) -> _T:
    """Return the result of work on connections to both clusters, which must be ``clusters``.

    Raises:
        ConnectionFailed, NotSent, OutcomeUnknown: a cluster did not answer.
    """
    try:
        connections = _connections(options)
        connections.require(clusters)
        result: _T = connections.loop.run(partial(work, connections))
    except BaseException:
        _disconnect(options)
        raise
    return result


def _disconnect(options: BothOptions) -> None:
    """Close sockets that may still carry requests or responses in flight after a failure."""
    kept = _kept.pop(_name(options), None)
    if kept is not None:
        kept[1].close()


def known_origins(task: SlotTask, options: BothOptions) -> BatchOrigins | None:
    """Return what is known about producer ids; kept, as reading all registrations takes time."""
    if task.opposite is None:
        return None
    key = _name(options), task.opposite
    return _known_origins.setdefault(key, BatchOrigins(task.opposite))


def known_schemas(task: SlotTask) -> KnownSchemas | None:
    """Return the target ids of schemas that were looked up; kept for the laps that follow."""
    registries = task.registries
    if registries is None:
        return None
    from k2ktui.registry.mapper import SchemaMapper  # not for workers without schema mapping

    key = sha256(pickle.dumps(registries)).hexdigest()
    if key not in _known_schemas:
        _known_schemas[key] = KnownSchemas(lambda: SchemaMapper(registries).map_id)
    return _known_schemas[key]


def _name(options: BothOptions) -> str:
    """Return the name of options, which stays when logins or certificates are renewed."""
    return _digest({k: side[k] for k in side if not k.startswith(_RENEWED)} for side in options)


def _digest(options: Iterable[Mapping[str, Any]]) -> str:
    key = pickle.dumps([sorted(side.items(), key=lambda item: item[0]) for side in options])
    return sha256(key).hexdigest()


def _connections(options: BothOptions) -> Connections:
    name, with_logins = _name(options), _digest(options)
    known = _kept.get(name)
    if known is not None and known[0] != with_logins:
        log.info("a login or a certificate was renewed: connecting again")
        _disconnect(options)
        known = None
    if known is None:
        # This process has read no configuration: its log would not know what is secret.
        diagnostics.set_up()
        for side in options:
            remember_secrets((key, str(value)) for key, value in side.items())
        connections = Connections(options)
        try:
            connections.loop.run(connections.open)
        except BaseException:
            connections.close()  # they are not kept yet
            raise
        log.info("connected to both clusters")
        known = _kept[name] = with_logins, connections
    return known[1]
