"""Two real one-node Apache Kafka clusters, shared by all tests of a session."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

from k2ktui.replication.spark.archive import ARCHIVE_MAKER as SPARK_MAKER
from k2ktui.replication.spark.archive import TRANSFORM_ARCHIVE_MAKER
from k2ktui.runtime import node as node_module
from k2ktui.runtime.class_archive import USE, VARIABLE
from k2ktui.runtime.node import ARCHIVE_MAKER as BROKER_MAKER
from k2ktui.runtime.node import EAGER_CLEANING, KafkaNode
from k2ktui.runtime.registry_node import RegistryNode
from k2ktui.secret_values import forget_secrets
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import START_S
from tests.support.clusters.registries import Registries, start_registries
from tests.support.clusters.secure import SecureNode, start_secure_node
from tests.support.schedule.examples import examples
from tests.support.schedule.long import is_long

# A loaded machine fails no test: timings belong to bench/.
settings.register_profile(
    "k2ktui",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],  # it counts a second in which others run, too
)
settings.load_profile("k2ktui")

pytest_plugins = [
    "tests.support.schedule.outcomes",  # before the next one, which imports it
    "tests.support.schedule.plugin",
    "tests.support.schedule.shuffle",
    "tests.support.pipelines.fixtures",
    "tests.support.records.native_library",
]

SECURE_USERS = (
    "guest",
    "nobody",
    "reader",
    "stranger",
    "writer",
    "ann",
    "copier",
    "racer",
    "resetter",
    "starter",
)

# Seconds until a long test counts as hanging, unless it says otherwise; others have the default.
_LONG_TEST_S = 1800

# Long tests in a session that is worth the archive of transforms.
_MANY = 20

# Objects, and younger collections, before a collection of each age.
_GARBAGE = (20_000, 10, 20)

# Tests wait for these; the broker's own intervals are minutes.
_TEST_PROPERTIES = {
    **EAGER_CLEANING,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "metadata.max.idle.interval.ms": "5000",  # a record each half second, in many idle clusters
}

# A machine that stands still for seconds fences no broker: whoever asks in the moment after would
# find no broker, and no leader. A broker that was killed waits as long before it serves again.
_SESSION = "broker.session.timeout.ms"
_SESSION_MS = "10000"
# Of the clusters of a session without long tests, as only these kill one.
_PATIENT = {_SESSION: "30000"}


def pytest_configure() -> None:
    """Undo what a shell or nohup ignores for what they start, or our children would, too.

    A handler of SIGHUP keeps the suite alive under nohup, and is not inherited: a child starts with
    the default.

    Archives of classes are made when the tests begin, not beside one.

    Container images often set PYTHONDONTWRITEBYTECODE. With it, each of the suite's processes and
    each command that a test starts would compile all that it imports.

    A server has the time to start that a busy machine takes, and a broker to tell that it lives.
    """
    node_module.DEFAULTS = {**node_module.DEFAULTS, _SESSION: _SESSION_MS}
    for kind in (KafkaNode, RegistryNode):
        kind.START_SECONDS = START_S
    os.environ.setdefault(VARIABLE, USE)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Exclude modules and collected tests from Python's garbage collections, and make these rare.

    There are a million such objects, and none of them is garbage: without this, a third of what
    the console's tests cost is collections.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(*_GARBAGE)
        gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let long tests take their time where other things run, too."""
    if is_long(item) and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(_LONG_TEST_S))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds",
        type=int,
        metavar="N",
        help="run proofs with N times as many seeds as they have, not only with that of this run",
    )
    parser.addoption(
        "--brokers",
        action="append",
        default=[],
        metavar="SOURCE,TARGET",
        help="run the matrix with these versions of Kafka, for example 3.6.2,4.1.1; repeatable",
    )


def _patience(session: pytest.Session) -> dict[str, str]:
    """Return :data:`_PATIENT` for a session without long tests."""
    return {} if any(map(is_long, session.items)) else _PATIENT


def started(node: KafkaNode) -> KafkaNode:
    """Start a cluster; on a machine that is busy with other things too."""
    return node.start(START_S)


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> None:
    """A password of one test may be an ordinary word of another one's messages."""
    forget_secrets()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> None:
    """Make the archives before the first test: on a busy machine that takes longer than a test may.

    The brokers would be missing in all tests of the process.
    """
    wanted = any("class_archives" in getattr(item, "fixturenames", ()) for item in session.items)
    if wanted and not session.config.option.collectonly:
        _make_class_archives(session)


def _make_class_archives(session: pytest.Session) -> None:
    """Make the archives with which Kafka and Spark start in less CPU time, once for a machine.

    The processes of a session wait for each other. Without an archive, tests take longer. The fast
    ones start Spark too rarely: there it takes longer to make one. So do a few long ones with that
    of transforms, which takes a minute of CPU time and saves a third of each start's.
    """
    long = sum(map(is_long, session.items))
    makers = [BROKER_MAKER]
    if long:
        makers.append(SPARK_MAKER)
    if long > _MANY and find_spec("pyarrow"):  # of the extra ``transform``
        makers.append(TRANSFORM_ARCHIVE_MAKER)
    for module in makers:
        subprocess.run([sys.executable, "-m", module], check=False)


@pytest.fixture(scope="session")
def class_archives() -> None:
    """What starts Java: the archives of classes were made when the session began."""


@pytest.fixture(scope="session")
def clusters(
    class_archives: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[KafkaNode, KafkaNode]]:
    """The source and the target, started at the same time."""
    data = tmp_path_factory.mktemp("clusters")
    properties = {**_TEST_PROPERTIES, **_patience(request.session)}
    nodes = tuple(KafkaNode(name, data / name, properties) for name in ("source", "target"))
    try:
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(started, nodes))
        yield nodes[0], nodes[1]
    finally:
        for node in nodes:
            node.close()


@pytest.fixture(scope="session")
def secure(
    class_archives: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureNode]:
    """A cluster with TLS, SASL and an authorizer; users have no rights but those a test grants."""
    passwords = {user: f"{user}-3cr3t" for user in SECURE_USERS}
    directory = tmp_path_factory.mktemp("secure")
    started = start_secure_node(directory, passwords, _patience(request.session))
    yield started
    started.node.close()


@pytest.fixture(scope="session")
def brokers(class_archives: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Brokers of other versions: ``old, new = brokers("2.8", "3.9")`` starts what does not run."""
    started = Brokers(tmp_path_factory.mktemp, _TEST_PROPERTIES)
    yield started
    started.close()


@pytest.fixture(scope="session")
def running_registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registries]:
    """Schema registries of the source and of the target, whose ids disagree."""
    started = start_registries(tmp_path_factory.mktemp("registries"))
    yield started
    started.close()


@pytest.fixture
def registries(running_registries: Registries) -> Registries:
    """Both schema registries, running whatever an earlier test did to them."""
    return running_registries.start()


@pytest.fixture
def source(clusters: tuple[KafkaNode, KafkaNode]) -> KafkaNode:
    """The source cluster, running whatever an earlier test did to it."""
    return started(clusters[0])


@pytest.fixture
def target(clusters: tuple[KafkaNode, KafkaNode]) -> KafkaNode:
    """The target cluster, running whatever an earlier test did to it."""
    return started(clusters[1])
