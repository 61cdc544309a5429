"""Run the demo: clusters, seed data, live traffic, the pipeline and the console; then shut down."""

from __future__ import annotations

import contextlib
import fcntl
import queue
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from k2ktui.demo import beside, clients, console, pipeline, running
from k2ktui.demo.applications import LIVE, Applications, commit_seed_offsets
from k2ktui.demo.pipeline import DemoPipeline, ended_unexpectedly
from k2ktui.demo.running import (
    DemoAction,
    DemoActions,
    DemoEnded,
    Host,
    answering,
    ending_signals,
    request,
)
from k2ktui.demo.screen import Comparison, Screen, groups_table, summarize_topics
from k2ktui.demo.traffic import write_seed_data
from k2ktui.errors import ExitCode, K2kError, Refused, fix_text
from k2ktui.faults import fault as report
from k2ktui.progress import Progress, ProgressStep
from k2ktui.runtime import artifacts
from k2ktui.runtime.node import EAGER_CLEANING, KafkaNode
from k2ktui.runtime.paths import state_dir, state_path
from k2ktui.runtime.spark_extra import require_demo_packages
from k2ktui.watch.feed import Feed
from k2ktui.watch.model import PartName, View

_REFRESH_SECONDS = 1.0
_HEAP = "384m"
_SIDES = (PartName.SOURCE, PartName.TARGET)
_TOUR_OVER = (
    "The clusters and the applications keep running. In another terminal, try the commands above; "
    "screen 8 of k2ktui -f {file} shows the drills. Ctrl-C stops everything and deletes the data."
)
_DETACHED = (
    "The demo keeps running for up to an hour. In another terminal, k2ktui demo opens its console "
    "again; Ctrl-C here or k2ktui demo --stop ends it."
)


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
        headless: show a live table instead of the console, as is always done without a terminal.
        seconds: end this many seconds after the table first shows copied records (implies
            ``headless``); None runs until interrupted.
        directory: where everything is kept; the user's state directory by default.
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
    directory: Path | None = None
    rate: float = 1.0
    with_mirrormaker: bool = False
    with_schemas: bool = False
    drill: Tour | None = None
    pause: float | None = None


def run(options: DemoOptions) -> ExitCode:
    """Run the demo until it is interrupted (or for ``options.seconds``); leave no process running.

    Raises:
        NotInstalled: PySpark, or the package that downloads Kafka, is missing.
        Refused: another demo runs, or there is no suitable Java.
        ConnectionFailed: a download failed, or a cluster rejected a request.
        TimedOut: a cluster did not start in time.
        K2kError: the pipeline ended on its own.
    """
    require_demo_packages("the demo")
    if options.with_schemas:
        beside.require_schema_packages()
    home = options.directory or state_dir("demo")
    screen = Screen()
    host = running.host(home)
    if host is not None and host.waiting and _has_console(options) and not options.drill:
        if not options.fresh:
            if options.with_mirrormaker and host.compare is None:
                screen.say(
                    "The running demo's data has no MirrorMaker 2. Start over with "
                    "it: k2ktui demo --fresh --with-mirrormaker."
                )
            if options.with_schemas:
                beside.note_missing_schemas(host.config, screen)
            return _reattach(home, host, screen)
        running.end(host)
    with ending_signals(), lock_demo(home):
        data = _data(home, options)
        if options.fresh or options.drill or not _complete(data).exists():
            shutil.rmtree(data, ignore_errors=True)
        code = ExitCode.OK
        try:
            with contextlib.ExitStack() as stack:
                code = _run(options, home, screen, stack)
        except DemoEnded as ended:
            screen.say(f"Stopped by {ended}.")
            code = ExitCode.INTERRUPTED if ended.number == DemoEnded.INTERRUPT else ExitCode.OK
        # After an error the data is kept, because the logs are in it.
        _keep_or_delete(data, options.keep, screen)
        screen.say("The demo has ended.")
        return code


def end(directory: Path | None = None) -> ExitCode:
    """End the running demo, whether or not it has a terminal.

    Raises:
        TimedOut: it does not end.
    """
    screen = Screen()
    host = running.host(directory or state_path("demo"))
    if host is None:
        screen.say("No demo is running.")
        return ExitCode.OK
    running.end(host)
    screen.say("The demo was stopped.")
    return ExitCode.OK


def act(action: DemoAction, directory: Path | None = None) -> str:
    """Let the running demo perform an action, and return what runs then.

    Raises:
        K2kError: as for :func:`k2ktui.demo.running.request`.
    """
    return request(directory or state_path("demo"), action)


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


def _has_console(options: DemoOptions) -> bool:
    shown = options.headless or options.seconds is not None
    return not shown and console.has_terminal()


def _reattach(home: Path, host: Host, screen: Screen) -> ExitCode:
    """Open the console on a demo that runs without one; the user may end the demo or leave it."""
    screen.say("The demo still runs; q offers to end it or to keep it running.")

    def watch() -> str:
        running.keep_waiting(home)  # the hour begins when nobody looks any more
        return "" if host.identity.alive else "the demo was stopped"

    number, code = _open_console(home, host.config, watch, host.compare, screen)
    if number == DemoEnded.HANG_UP:
        running.keep_waiting(home)
        return code
    screen.say("Stopping the pipeline and the clusters …")
    running.end(host)
    screen.say("The demo has ended.")
    return ExitCode.INTERRUPTED if number == DemoEnded.INTERRUPT else ExitCode.OK


def _data(home: Path, options: DemoOptions) -> Path:
    # A fenced pipeline could not be continued, and what an earlier demo kept stays.
    return home / ("drill" if options.drill else "data")


def _run(options: DemoOptions, home: Path, screen: Screen, stack: contextlib.ExitStack) -> ExitCode:
    data = _data(home, options)
    source, target = _start_clusters(data, screen, stack)
    addresses = (source.bootstrap, target.bootstrap)
    config = data / "pipeline.yaml"
    registries = beside.start_registries(data, screen, stack) if options.with_schemas else None
    urls = registries.urls if registries else None
    text = pipeline.write_yaml(config, *addresses, registries=urls)
    # The console and the tour's steps follow; what they leave on the screen should not be a file.
    screen.show_file(config, "" if _has_console(options) else text)
    if _complete(data).exists():
        screen.say("Continuing with the data of an earlier demo (--fresh starts over).")
    else:
        _write_seed_data(addresses, screen, tour=options.drill is not None)
        _complete(data).touch()
    if registries is not None:
        beside.write_schema_topic(data, addresses, registries, screen)
    compare = data / beside.MIRROR_FILE if options.with_mirrormaker else None
    with _announce_stop("Stopping the pipeline", screen):
        job = pipeline.DemoPipeline(config, data / "job-guard.log")
        stack.callback(job.stop)
        stack.enter_context(running.announce(home, config, compare))
        peer = beside.start_peer(compare, addresses, screen, stack) if compare else None
        if options.drill:
            return _run_tour(options, home, config, (source, target), job, screen, stack)
        applications = Applications(*addresses, options.rate, LIVE)
        stack.callback(applications.stop)
        applications.start()
        stack.enter_context(answering(home, DemoActions(applications, source).perform))
        if not _has_console(options):
            _show_table(config, compare, job, screen, options.seconds, stack)
            return ExitCode.OK
        screen.say("Opening the console; q offers to end the demo or to keep it running.")

        def fault() -> str:
            return _failure_text(job.fault()) or (peer.fault() if peer else "")

        number, code = _open_console(home, config, fault, compare, screen)
        if number == DemoEnded.HANG_UP:
            if console.has_terminal():
                screen.say(_DETACHED)
            running.stay(home, config, compare=compare)
            return code
        if number:
            raise DemoEnded(number)
    return ExitCode.OK


def _open_console(
    home: Path,
    config: Path,
    watchdog: Callable[[], str],
    compare: Path | None,
    screen: Screen,
) -> tuple[int, ExitCode]:
    """Open the console until it is left; a bug in it ends neither the clusters nor the traffic.

    Returns:
        What :func:`console.open_console` returns, a hang-up if it failed; and the exit code of a
        demo that goes on without it.
    """
    try:
        return console.open_console(home, config, watchdog, compare), ExitCode.OK
    except Exception as error:
        reported = error if isinstance(error, K2kError) else report(error)
        screen.say(f"The console has ended: {reported.message} {fix_text(reported.hint)}")
        return DemoEnded.HANG_UP, reported.exit_code


def _run_tour(
    options: DemoOptions,
    home: Path,
    config: Path,
    nodes: tuple[KafkaNode, KafkaNode],
    job: DemoPipeline,
    screen: Screen,
    stack: contextlib.ExitStack,
) -> ExitCode:
    """Fail over and back; then wait for Ctrl-C at a terminal, or as long as was asked."""
    # Imported here: not needed in the demo's first seconds.
    from k2ktui.demo.tour import READING_SECONDS, Stage, run_disaster, run_planned

    applications = Applications(nodes[0].bootstrap, nodes[1].bootstrap, options.rate)
    stack.callback(applications.stop)
    applications.start()
    reads = _has_console(options)

    reading_s = options.pause
    if reading_s is None:
        reading_s = READING_SECONDS if reads else 0.0
    stage = Stage(config, nodes, applications, screen, job, reading_s)
    code = run_disaster(stage) if options.drill is Tour.DISASTER else run_planned(stage)
    if reads:
        # The tour has stopped the producers, to count what the groups have read.
        applications.start_on("source")
        stack.enter_context(answering(home, DemoActions(applications, nodes[0]).perform))
        screen.say(_TOUR_OVER.format(file=shlex.quote(str(config))))
        while True:
            time.sleep(_REFRESH_SECONDS)
    time.sleep(options.seconds or 0.0)
    return code


def _complete(data: Path) -> Path:
    # A demo that was killed while it wrote its seed data must not be continued.
    return data / "complete"


def _write_seed_data(addresses: tuple[str, str], screen: Screen, *, tour: bool) -> None:
    """Write records and offsets; those of a tour begin in a state that can be failed over."""
    with screen.busy("Creating topics") as step:
        clients.create_topics(*addresses)
        write_seed_data(*addresses, say=lambda text: step(ProgressStep(text)), prior=not tour)
        commit_seed_offsets(*addresses, flaws=not tour)


def _start_clusters(
    data: Path, screen: Screen, stack: contextlib.ExitStack
) -> tuple[KafkaNode, KafkaNode]:
    nodes = [
        KafkaNode(name, data / name, EAGER_CLEANING, heap=_HEAP) for name in ("source", "target")
    ]
    with screen.busy("Looking for Java and Apache Kafka") as step:
        artifacts.classpath(artifacts.SERVER, artifacts.LOGGING, progress=step)
        step(ProgressStep(f"Starting two clusters (Apache Kafka {artifacts.KAFKA_VERSION})"))
        stack.callback(_run_on_each, nodes, KafkaNode.close)
        _run_on_each(nodes, KafkaNode.start)
    for node in nodes:
        screen.say(f"{node.name}: {node.bootstrap}  cluster {node.cluster_id}")
    return nodes[0], nodes[1]


def _run_on_each(nodes: list[KafkaNode], work: Callable[[KafkaNode], object]) -> None:
    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(work, nodes))


def _show_table(
    config: Path,
    compare: Path | None,
    job: DemoPipeline,
    screen: Screen,
    seconds: float | None,
    stack: contextlib.ExitStack,
) -> None:
    """Show the live table, with the MirrorMaker 2 comparison below it."""
    feed = console.open_feed(config, compare)
    stack.callback(feed.close)
    _watch(job, feed, screen, seconds, Comparison() if compare else None)


def _watch(
    job: DemoPipeline,
    feed: Feed,
    screen: Screen,
    seconds: float | None,
    compared: Comparison | None,
) -> None:
    views: queue.SimpleQueue[View] = queue.SimpleQueue()
    feed.start(views.put)
    deadline: float | None = None
    with screen.live() as show:
        while deadline is None or time.monotonic() < deadline:
            if fault := job.fault():
                raise ended_unexpectedly(fault)
            try:
                view = views.get(timeout=_REFRESH_SECONDS)
            except queue.Empty:
                continue
            if error := next((e for name in _SIDES if (e := view.part(name).error)), ""):
                show([], error, ())  # the user may have stopped a cluster; it comes back
                continue
            if any(view.part(name).taken_at is None for name in _SIDES):
                continue
            lines = summarize_topics(view)
            if compared:
                compared.take(view)
            note = f"The pipeline's log: {job.log_path}. Ctrl-C stops everything."
            beside = [groups_table(compared.groups, compared.note)] if compared else ()
            show(lines, note, beside)
            flowing = any(line.mapped for line in lines) and (not compared or bool(compared.groups))
            if deadline is None and seconds is not None and flowing:
                deadline = time.monotonic() + seconds


def _failure_text(fault: str) -> str:
    return f"the pipeline ended unexpectedly: {fault}" if fault else ""


@contextlib.contextmanager
def _announce_stop(text: str, screen: Screen) -> Iterator[None]:
    try:
        yield
    finally:
        screen.say(text + " and the clusters …")


@contextlib.contextmanager
def lock_demo(home: Path) -> Iterator[None]:
    """Hold the lock of a demo's directory; raise Refused if another demo holds it."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Refused(
                f"Another demo is using {home}.",
                unchanged="Nothing was started.",
                hint="Stop it first: k2ktui demo --stop",
            ) from error
        yield


def _keep_or_delete(data: Path, keep: bool, screen: Screen) -> None:
    if keep:
        screen.say(f"The data is kept in {data}; the next k2ktui demo continues it.")
    else:
        shutil.rmtree(data, ignore_errors=True)
