"""Run the demo: clusters, seed data, live traffic, the pipeline and the console; then shut down."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from k2ktui.console import terminal
from k2ktui.demo import beside, clients, running
from k2ktui.demo.applications import LIVE, ON_SOURCE, Applications, commit_seed_offsets
from k2ktui.demo.running import DemoActions, DemoEnded, answering, ending_signals
from k2ktui.demo.screen import Screen
from k2ktui.demo.topics import SCHEMA_TOPIC
from k2ktui.demo.traffic import write_seed_data
from k2ktui.errors import ExitCode, K2kError, Refused, fix_text
from k2ktui.faults import fault as report
from k2ktui.progress import Progress, ProgressStep
from k2ktui.runtime import artifacts
from k2ktui.runtime.node import EAGER_CLEANING, KafkaNode
from k2ktui.runtime.paths import state_dir
from k2ktui.runtime.spark_extra import require_demo_packages

if TYPE_CHECKING:
    from k2ktui.demo.pipeline import DemoPipeline
    from k2ktui.jobs.job_directory import JobRecord

_HEAP = "384m"
# A demo that was killed while it wrote its seed data does not have this file, and is not continued.
_COMPLETE = "complete"
_TOUR_OVER = (
    "The clusters and the applications keep running. In another terminal, try the commands above; "
    "screen 8 of k2ktui -f {file} shows the drills. Ctrl-C stops everything and deletes the data."
)
_DETACHED = (
    "The demo keeps running for up to an hour. In another terminal, k2ktui demo opens its console "
    "again; Ctrl-C here or k2ktui demo --stop ends it."
)

#: Opens the console on a pipeline's file, with the properties file of a MirrorMaker 2 beside it and
#: what describes a failure of the demo, "" if there is none. Returns the number of the signal that
#: ended it, that of a hang-up if the terminal is gone or the demo is to be kept running, else 0.
OpenConsole = Callable[[Path, Path | None, Callable[[], str]], int]


class Tour(StrEnum):
    """What a tour does: a planned switchover and back, or a disaster and back."""

    PLANNED = "planned"
    DISASTER = "disaster"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How to run the demo.

    Attributes:
        fresh: delete the data of an earlier demo.
        keep: keep the clusters' data when the demo ends; the next demo continues it.
        headless: print the pipeline's views instead of the console, as is always done without a
            terminal.
        seconds: end this many seconds after the first view of copied records (implies
            ``headless``); None runs until interrupted.
        rate: multiplies the traffic.
        with_mirrormaker: run MirrorMaker 2 beside the pipeline, and compare the two.
        with_schemas: start two schema registries, and copy a topic of Avro records between them.
        drill: fail over and back, with new data of its own; ``seconds`` are then counted from the
            end.
        pause: seconds between two phases of ``drill``; None pauses at a terminal only.
    """

    fresh: bool = False
    keep: bool = False
    headless: bool = False
    seconds: float | None = None
    rate: float = 1.0
    with_mirrormaker: bool = False
    with_schemas: bool = False
    drill: Tour | None = None
    pause: float | None = None


def end(screen: Screen) -> ExitCode:
    """End the running demo, whether or not it has a terminal.

    Raises:
        TimedOut: it does not end.
    """
    screen.say("The demo was stopped." if running.end() else "No demo is running.")
    return ExitCode.OK


def fetch_jars(progress: Progress) -> Path:
    """Download the jars that the demo needs, also with MirrorMaker 2; return their directory.

    Raises:
        NotInstalled: PySpark, or the package that downloads Kafka, is missing.
        ConnectionFailed: a download failed.
    """
    require_demo_packages("the demo")
    artifacts.classpath(artifacts.SERVER, artifacts.LOGGING, progress=progress)
    beside.mirrormaker_jars(progress)
    return artifacts.jars_directory()


class Demo:
    """Runs the demo; see :meth:`run`.

    Args:
        options: how.
        screen: where it says what it does.
        open_console: opens its console.
    """

    def __init__(self, options: DemoOptions, screen: Screen, open_console: OpenConsole) -> None:
        self._options, self._say = options, screen.say
        self._screen, self._open = screen, open_console
        self._stack = contextlib.ExitStack()

    @cached_property
    def _has_console(self) -> bool:
        if self._options.headless or self._options.seconds is not None:
            return False
        try:
            terminal.check()
        except K2kError:
            return False
        return True

    def run(self) -> ExitCode:
        """Run it until it is interrupted, or for ``seconds``; leave no process running.

        Raises:
            NotInstalled: PySpark, or the package that downloads Kafka, is missing.
            Refused: another demo runs, or there is no suitable Java.
            ConnectionFailed: a download failed, or a cluster rejected a request.
            TimedOut: a cluster did not start in time.
            K2kError: the pipeline ended on its own.
        """
        options = self._options
        require_demo_packages("the demo")
        if options.with_schemas:
            beside.require_schema_packages()
        host = running.find_demo()
        if host and running.is_waiting() and self._has_console and not options.drill:
            if not options.fresh:
                return self.reattach(host)
            running.end()
        home = state_dir("demo")
        # A fenced pipeline could not be continued, and what an earlier demo kept stays.
        data = home / ("drill" if options.drill else "data")
        with ending_signals() as ends, lock_demo():
            code = ExitCode.OK
            try:
                with self._stack:
                    try:
                        code = self._run(data)
                    finally:
                        ends()
            except DemoEnded as ended:
                self._say(f"Stopped by {ended}.")
                if ended.number == DemoEnded.INTERRUPT:
                    code = ExitCode.INTERRUPTED
            # After an error the data is kept, because the logs are in it.
            if options.keep:
                self._say(f"The data is kept in {data}; the next k2ktui demo continues it.")
            else:
                _delete(data)
            self._say("The demo has ended.")
            return code

    def reattach(self, host: JobRecord) -> ExitCode:
        """Open the console on a demo that has none; the user may end the demo or leave it."""
        config = Path(host.files[0])
        mirror = config.with_name(beside.MIRROR_FILE)
        compare = mirror if mirror.exists() else None
        if self._options.with_mirrormaker and compare is None:
            self._say(
                "The running demo's data has no MirrorMaker 2. Start over with it: "
                "k2ktui demo --fresh --with-mirrormaker."
            )
        if self._options.with_schemas and SCHEMA_TOPIC not in config.read_text():
            self._say(
                "The running demo has no schema registries. Start over with them: "
                "k2ktui demo --fresh --with-schemas."
            )
        self._say("The demo still runs; q offers to end it or to keep it running.")

        def watch() -> str:
            running.keep_waiting()  # the hour begins when nobody looks any more
            return "" if running.find_demo() else "the demo was stopped"

        number, code = self.open_console(config, compare, watch)
        if number == DemoEnded.HANG_UP:
            running.keep_waiting()
            return code
        self._say("Stopping the pipeline and the clusters …")
        running.end()
        self._say("The demo has ended.")
        return ExitCode.INTERRUPTED if number == DemoEnded.INTERRUPT else ExitCode.OK

    def open_console(
        self, config: Path, compare: Path | None, watchdog: Callable[[], str]
    ) -> tuple[int, ExitCode]:
        """Open the console until it is left; a bug in it ends neither the clusters nor the traffic.

        Returns:
            As :data:`OpenConsole`, a hang-up if it failed; and the exit code of a demo that goes on
            without it.
        """
        try:
            return self._open(config, compare, watchdog), ExitCode.OK
        except Exception as error:
            reported = error if isinstance(error, K2kError) else report(error)
            self._say(f"The console has ended: {reported.message} {fix_text(reported.hint)}")
            return DemoEnded.HANG_UP, reported.exit_code

    def _run(self, data: Path) -> ExitCode:
        options = self._options
        if options.fresh or options.drill or not (data / _COMPLETE).exists():
            _delete(data)
        nodes = self._start_clusters(data)
        # Imported here: not needed in the demo's first seconds, nor by its other options.
        from k2ktui.demo import pipeline

        addresses = (nodes[0].bootstrap, nodes[1].bootstrap)
        config = data / "pipeline.yaml"
        registries = None
        if options.with_schemas:
            registries = beside.start_registries(data, self._screen, self._stack)
        text = pipeline.write_yaml(config, *addresses, registries=registries)
        self._say(f"The pipeline's file: {config}")
        # What the console and the tour's steps leave on the screen should not be a file.
        if not self._has_console:
            self._screen.show([text])
        if (data / _COMPLETE).exists():
            self._say("Continuing with the data of an earlier demo (--fresh starts over).")
        else:
            self._write_seed_data(addresses)
            (data / _COMPLETE).touch()
        if registries is not None:
            beside.write_schema_topic(data, addresses, registries, self._screen)
        mirror = data / beside.MIRROR_FILE
        mirror.unlink(missing_ok=True)  # of an earlier demo
        compare = mirror if options.with_mirrormaker else None
        try:
            job = pipeline.DemoPipeline(config, data / "job-guard.log")
            self._stack.callback(job.stop)
            with running.announce(config):
                peer_fault: Callable[[], str] = str
                if compare is not None:
                    peer_fault = beside.start_peer(compare, addresses, self._screen, self._stack)
                groups = ON_SOURCE if options.drill else LIVE
                applications = Applications(*addresses, options.rate, groups)
                self._stack.callback(applications.stop)
                applications.start()
                if options.drill:
                    return self._run_tour(config, nodes, job, applications)
                self._take_requests(applications, nodes[0])
                if self._has_console:
                    return self._show_console(config, compare, lambda: job.fault() or peer_fault())
                return self._print_views(config, compare, job)
        finally:
            self._say("Stopping the pipeline and the clusters …")

    def _start_clusters(self, data: Path) -> tuple[KafkaNode, KafkaNode]:
        source, target = nodes = [
            KafkaNode(name, data / name, EAGER_CLEANING, heap=_HEAP)
            for name in ("source", "target")
        ]
        with self._screen.busy("Looking for Java and Apache Kafka") as step:
            artifacts.classpath(artifacts.SERVER, artifacts.LOGGING, progress=step)
            step(ProgressStep(f"Starting two clusters (Apache Kafka {artifacts.KAFKA_VERSION})"))
            self._stack.callback(beside.run_on_each, nodes, KafkaNode.close)
            beside.run_on_each(nodes, KafkaNode.start)
        for node in nodes:
            self._say(f"{node.name}: {node.bootstrap}  cluster {node.cluster_id}")
        return source, target

    def _write_seed_data(self, addresses: tuple[str, str]) -> None:
        """Write records and offsets; those of a tour begin in a state that can be failed over."""
        flaws = self._options.drill is None
        with self._screen.busy("Creating topics") as step:
            clients.create_topics(*addresses)
            write_seed_data(*addresses, say=lambda text: step(ProgressStep(text)), prior=flaws)
            commit_seed_offsets(*addresses, flaws=flaws)

    def _take_requests(self, applications: Applications, source: KafkaNode) -> None:
        self._stack.enter_context(answering(DemoActions(applications, source).perform))

    def _show_console(
        self, config: Path, compare: Path | None, fault: Callable[[], str]
    ) -> ExitCode:
        self._say("Opening the console; q offers to end the demo or to keep it running.")
        number, code = self.open_console(config, compare, fault)
        if number == DemoEnded.HANG_UP:
            if not terminal.is_gone():
                self._say(_DETACHED)
            running.stay()
        elif number:
            raise DemoEnded(number)
        return code

    def _print_views(self, config: Path, compare: Path | None, job: DemoPipeline) -> ExitCode:
        """Print what ``k2ktui watch`` prints, until ``seconds`` after the first copied records."""
        from k2ktui.demo.pipeline import views
        from k2ktui.present.view_lines import view_lines
        from k2ktui.watch.feed import DEFAULT_INTERVAL_S

        self._say(f"The pipeline's log: {job.log_path}. Ctrl-C stops everything.")
        seconds, deadline = self._options.seconds, math.inf
        with contextlib.closing(views(config, compare, job.fault, DEFAULT_INTERVAL_S)) as made:
            for view in made:
                if view is not None:
                    self._screen.show(view_lines(view, time.time()))
                    flowing = any(row.status.mapped_records for row in view.partitions)
                    audited = compare is None or (view.audit is not None and view.audit.rows)
                    if seconds is not None and flowing and audited:
                        deadline = min(deadline, time.monotonic() + seconds)
                if time.monotonic() >= deadline:
                    break
        return ExitCode.OK

    def _run_tour(
        self,
        config: Path,
        nodes: tuple[KafkaNode, KafkaNode],
        job: DemoPipeline,
        applications: Applications,
    ) -> ExitCode:
        """Fail over and back; then wait for Ctrl-C at a terminal, or as long as was asked."""
        from k2ktui.demo.tour import READING_SECONDS, DrillTour

        options = self._options
        reading_s = options.pause
        if reading_s is None:
            reading_s = READING_SECONDS if self._has_console else 0.0
        tour = DrillTour(config, nodes, applications, self._screen, job, reading_s)
        code = tour.run_disaster() if options.drill is Tour.DISASTER else tour.run_planned()
        if self._has_console:
            # The tour has stopped the producers, to count what the groups have read.
            applications.start_on("source")
            self._take_requests(applications, nodes[0])
            self._say(_TOUR_OVER.format(file=shlex.quote(str(config))))
            threading.Event().wait()
        time.sleep(options.seconds or 0.0)
        return code


def _delete(data: Path) -> None:
    # First, so that the rest is not continued if this is interrupted.
    (data / _COMPLETE).unlink(missing_ok=True)
    shutil.rmtree(data, ignore_errors=True)


@contextlib.contextmanager
def lock_demo() -> Iterator[None]:
    """Hold the lock of the demo's directory; raise Refused if another demo holds it."""
    place = running.demo_place()
    lock = place.lock()
    if lock is None:
        raise Refused(
            f"Another demo is using {place.directory}.",
            unchanged="Nothing was started.",
            hint="Stop it first: k2ktui demo --stop",
        )
    try:
        yield
    finally:
        os.close(lock)
