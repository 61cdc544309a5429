"""A run and a sync application go on when certificates and passwords are renewed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.clusters.kafka import (
    Out,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.renewing import RenewingCluster
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline
from tests.support.pipelines.sync import running_sync

pytestmark = pytest.mark.slow

FIRST, SECOND = "first-3cr3t", "second-3cr3t"
GOES_ON_S = START_TIMEOUT
Sites = tuple[RenewingCluster, RenewingCluster]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """Source and target: clients have a certificate on the first, a password on the second."""
    directory = tmp_path_factory.mktemp("renewal")
    with ThreadPoolExecutor(2) as pool:
        source, target = pool.map(RenewingCluster, (directory / "source", directory / "target"))
    yield source, target
    source.close()
    target.close()


@pytest.mark.rotate("mode", ["exclusive", "shared"])
def test_a_run_and_a_sync_application_go_on(sites: Sites, tmp_path: Path, mode: str) -> None:
    source, target = sites
    source.trust_both()
    store = source.issue(source.old, tmp_path / "client.pem")
    secret = tmp_path / "password"
    target.set_password(FIRST)
    secret.write_text(f"{FIRST}\n")
    topic, group = create_topic(source.node, partitions=2), unique_name("group")
    pipeline = Pipeline(
        tmp_path,
        source.node,
        target.node,
        [topic],
        {
            "source.kafka.common": dict(source.mutual(store)),
            "target.kafka.common": dict(target.login("${file:password}")),
            "groups.consumerGroups": group,
            "groups.pollInterval": "2 seconds",
        },
    )
    pipeline.mode = mode
    written: list[bytes] = []

    def write() -> None:
        values = [b"v%d" % (len(written) + number) for number in range(100)]
        produce(source.node, topic, [Out(value, b"k", at % 2) for at, value in enumerate(values)])
        written.extend(values)

    def copied() -> bool:
        return len(read_all(target.node, topic)) == len(written)

    def is_moved(before: object) -> bool:
        return committed(target.node, group).get((topic, 0), 0) not in (0, before)

    with ExitStack() as stack:
        run = stack.enter_context(pipeline.start())
        run.expect("started")
        messages = tmp_path / "sync.log"

        def goes_on(what: str) -> None:
            write()
            eventually(copied, lambda: f"{what}\n{run.tail()}", GOES_ON_S)
            assert run.running
            before = committed(target.node, group).get((topic, 0), 0)
            commit_offsets(source.node, group, {(topic, 0): len(written) // 2})
            said = lambda: f"{what}: the group is moved\n{messages.read_text()}"  # noqa: E731
            eventually(lambda: is_moved(before), said, GOES_ON_S)

        write()
        eventually(copied, lambda: f"the start\n{run.tail()}", GOES_ON_S)
        stack.enter_context(running_sync(tmp_path / f"{pipeline.name}.yaml", messages))
        goes_on("the start of sync")
        source.issue(source.new, store)
        source.trust_only_new()
        goes_on("a certificate was renewed")
        run.expect("note", lambda event: "read again and are used now" in event["text"])
        secret.write_text(f"{SECOND}\n")
        target.set_password(SECOND)
        target.restart()
        goes_on("a password was rotated in its file, then on the brokers")
        target.set_password(FIRST)
        target.restart()
        write()
        run.expect("stopped", lambda event: event["fault"]["kind"] == "unauthorized")
        secret.write_text(f"{FIRST}\n")
        eventually(copied, lambda: f"a password was rotated late\n{run.tail()}", GOES_ON_S)
        goes_on("a password was rotated on the brokers, then in its file")

        def none_is_refused() -> bool:
            before = target.refused_logins()
            goes_on("no client uses the password before")
            return target.refused_logins() == before

        eventually(none_is_refused, "no login is refused any more")
        assert run.stop() == 0, run.tail()
    assert Counter(record.value for record in read_all(target.node, topic)) == Counter(written)
