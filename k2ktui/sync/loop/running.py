"""Runs the sync application until it is stopped: polls, heartbeats, metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from time import monotonic, time
from typing import TYPE_CHECKING

from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.moves.plan import Rewind
from k2ktui.errors import REFUSALS, ClusterRefused, ConnectionFailed, K2kError, TimedOut
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.control.topics import create_mapping_application_topics
from k2ktui.kafka.properties.renewal import listening
from k2ktui.kafka.unreachable import await_open
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.reports.stopped import RETRY_S
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.runtime.probes import Readiness, serve_probes
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.sync.flow import Flow
from k2ktui.sync.loop.metrics import measure_sync
from k2ktui.sync.loop.poll import SyncLoop, SyncPoll
from k2ktui.sync.mapping.source import NoPipelineFound, NothingCopied
from k2ktui.text import counted, safe_text

if TYPE_CHECKING:
    from k2ktui.runtime.http_server import Address, HttpServer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncReports:
    """What a run of the sync application reports, and to whom.

    Attributes:
        note: called with a sentence for the operator.
        polled: called after each poll; the flag says whether it is the first, or the only one.
        waits: called at each poll that finds no run of the pipeline yet.
    """

    note: Callable[[str], None]
    polled: Callable[[SyncPoll, bool], None]
    waits: Callable[[], None] = lambda: None


class SyncRun:
    """One run of the sync application.

    Args:
        flow: whose groups are translated.
        rewind: what to do where a group moved back on the source.
        reports: what is called.
        telemetry: export metrics.
        http: where to serve probes and metrics.
        beside: work that repeats beside the polls; with ``once``, it is done once after the poll.
    """

    def __init__(
        self,
        flow: Flow,
        rewind: Rewind,
        reports: SyncReports,
        *,
        telemetry: bool,
        http: Address | None = None,
        beside: BackgroundRunner | None = None,
    ) -> None:
        self._flow, self._config = flow, flow.config
        self._address, self._beside = http, beside
        self._readiness = Readiness(False, "starting: no poll has ended yet")
        self._rewind, self._reports, self._telemetry = rewind, reports, telemetry
        self._over = StopFlag()
        self._is_stopped = self._has_polled = False
        self._heartbeat: Heartbeat | None = None

    @property
    def is_ending(self) -> bool:
        """Whether a stop was requested."""
        return self._over.is_set()

    def stop(self) -> None:
        """Stop after the current poll; safe in a signal handler."""
        self._is_stopped = True
        self._over.set()
        if self._heartbeat is not None:
            self._heartbeat.ending()

    def run(self, *, once: bool = False) -> bool:
        """Poll until it is stopped; return whether there are findings.

        Findings are groups that were left alone, or, with ``once``, uncommitted offsets, groups
        that could not be read, or no mapping of the pipeline. A pipeline that has not run yet is
        waited for, but not with ``once``: both programs often start together.

        Raises:
            K2kError: the first poll, or the only one, failed, or a configured condition holds.
        """
        with ExitStack() as stack:
            return self._run(self._serve(stack), once=once)

    def _serve(self, stack: ExitStack) -> HttpServer | None:
        if self._address is None:
            return None
        from k2ktui.runtime.http_server import PAGES, HttpServer

        server = HttpServer(self._address, self._reports.note)
        serve_probes(server, self._idle_s, self._shown_readiness)
        server.start(announce=PAGES)
        stack.callback(server.close)
        return server

    def _idle_s(self) -> float:
        # The first poll reads the whole mapping, which takes as long as it takes.
        return self._over.idle_s() if self._has_polled else 0.0

    def _shown_readiness(self) -> Readiness:
        return Readiness(False, "stopping") if self._is_stopped else self._readiness

    def _run(self, http: HttpServer | None, *, once: bool) -> bool:
        config, note = self._config, self._reports.note
        # Before the heartbeat, whose own attempts would take seconds.
        await_open("target", config.target.bootstrap_servers)
        if not (self._flow.is_mirror or config.replicates):
            created, notes = create_mapping_application_topics(config, target_cluster(config))
            for name in created:
                note(f"topic {safe_text(name)} was created on the target cluster")
            for text in notes:
                note(text)
        loop = SyncLoop(self._flow, self._rewind)
        with ExitStack() as stack:
            stack.enter_context(listening(note))
            stack.callback(loop.close)
            report = stack.enter_context(
                measure_sync(config, note, wanted=self._telemetry, http=http)
            )
            if not once:
                self._heartbeat = Heartbeat(config, time(), note, kind=RunKind.SYNC)
                stack.enter_context(self._heartbeat)
                if self._beside is not None:
                    stack.enter_context(self._beside)
            try:
                findings = self._poll(loop, report, once=once)
                if once and self._beside is not None:
                    self._beside.do_once()
                return findings
            except K2kError as error:
                self._update_heartbeat(error.message)
                raise

    def _poll(self, loop: SyncLoop, report: Callable[[SyncPoll], None], *, once: bool) -> bool:
        findings, first, answered, waits = False, True, False, ""
        while not self._over.is_set():
            began, pause_s = monotonic(), self._config.groups.poll_interval_s
            try:
                turn = loop.turn()
            except (NothingCopied, NoPipelineFound) as error:
                if once:
                    raise
                if error.message != waits:
                    log.info("waiting: %s", error.message)
                    self._reports.note(f"{error.message}; waiting")
                answered, waits = True, error.message
                self._reports.waits()
                self._update_heartbeat(waits)
                self._readiness = Readiness(True, "waiting: no run of the pipeline is known yet")
                self._has_polled = True
            except (ConnectionFailed, TimedOut, ClusterRefused) as error:
                if once or not answered:
                    raise
                if isinstance(error, REFUSALS):
                    pause_s = max(pause_s, RETRY_S)
                log.info("poll failed, trying again in %.0f s: %s", pause_s, error.message)
                log.debug("poll: the cause", exc_info=error)
                self._update_heartbeat(error.message)
                self._readiness = Readiness(False, f"the last poll failed: {error.message}")
                self._reports.note(f"{error.message}; retrying")
            else:
                turn = replace(turn, duration_s=monotonic() - began)
                report(turn)
                self._update_heartbeat(next(iter(turn.failed), ""))
                self._reports.polled(turn, first or once)
                self._readiness, self._has_polled = _describe(turn), True
                unmoved = turn.failed or turn.unread or loop.unmapped
                findings = bool(loop.stopped) or (once and bool(unmoved))
                first, answered, waits = False, True, ""
            if once:
                break
            self._over.wait(max(0.0, pause_s - (monotonic() - began)))
        return findings

    def _update_heartbeat(self, error: str) -> None:
        if self._heartbeat is not None:
            self._heartbeat.observe_poll(error)


def _describe(turn: SyncPoll) -> Readiness:
    """Return a run as ready after a poll that has ended, with what it could not commit."""
    lines = [f"running: {counted(turn.groups, 'group')}"]
    # Anyone who reaches the port reads this: no names of groups.
    if turn.failed:
        lines.append(f"problem: {counted(len(turn.failed), 'offset')} not committed")
    if turn.stopped:
        lines.append(f"problem: {counted(len(turn.stopped), 'group')} left unchanged")
    return Readiness(True, "\n".join(lines))
