"""A name behind which clients need TLS and a login: the proofs use theirs, on real clusters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.drill.operations import resume_drill
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import DrillOptions, DrillStatus, Fence, PhaseStatus
from tests.support.clusters.haproxy import LISTENER, Front, FrontedNode, fronted
from tests.support.clusters.kafka import TIMEOUT, create_topic, read_all
from tests.support.clusters.secure import (
    Authority,
    create_scram_users,
    java_login,
    make_authority,
    make_login,
    rdkafka_login,
)
from tests.support.drill.runs import MAY, QUICK, Leaves, Left, Pair, Yes, check_of

pytestmark = pytest.mark.slow

CUT_OFF: DrillOptions = replace(QUICK, fence=Fence.CUT_OFF)
# The checks of the name count.
STRICT: DrillOptions = replace(CUT_OFF, accepted=tuple(CATALOG.keys() - {"D51"}))
_USER, _PASSWORD = "app", "app-secret-7"
_Lab = tuple[FrontedNode, FrontedNode, Front, Authority]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Lab]:
    directory, passwords = tmp_path_factory.mktemp("secure-name"), {_USER: _PASSWORD}
    authority, properties = make_login(LISTENER, directory / "tls", passwords)
    with fronted(directory / "fronted", properties=properties, protocol="SASL_SSL") as (
        east,
        west,
        front,
    ):
        for node in (east, west):
            create_scram_users(node, passwords)
        yield east, west, front, authority


def redirected(tmp_path: Path, lab: _Lab, config: dict[str, str]) -> Pair:
    east, west, front, _ = lab
    front.reset()
    section = {**front.section, "config": config}
    return Pair(tmp_path, east, west, {"drill": {"redirect": section}}, letters="a")


def test_clients_that_log_in_follow_their_name(tmp_path: Path, lab: _Lab) -> None:
    east, west, front, authority = lab
    pair = redirected(tmp_path, lab, java_login(authority, _USER, _PASSWORD))
    other = create_topic(east)
    create_topic(west, other)
    login = rdkafka_login(authority, _USER, _PASSWORD)
    writer = Producer({"bootstrap.servers": front.name.address, "log_level": 0, **login})
    writer.produce(other, b"before")
    assert writer.flush(TIMEOUT) == 0

    drill = pair.start(DrillKind.PLANNED, STRICT)
    assert drill.status is DrillStatus.DONE, drill
    assert check_of(drill, "D51").evidence.startswith("2 of 2 addresses")
    assert drill.record(DrillPhase.FENCE_PRODUCERS).status is PhaseStatus.DONE
    live = drill.record(DrillPhase.REDIRECT).live
    assert live.endswith(f"all of its 2 addresses answer as cluster {west.cluster_id}")
    writer.produce(other, b"after")
    assert writer.flush(TIMEOUT) == 0
    assert [got.value for got in read_all(west, other)] == [b"after"]


def test_a_login_that_the_name_refuses_moves_nothing(tmp_path: Path, lab: _Lab) -> None:
    _, _, front, authority = lab
    right = java_login(authority, _USER, _PASSWORD)
    foreign = make_authority(tmp_path / "foreign")
    wrong = {
        "rejected the login": java_login(authority, _USER, "another-secret"),
        "certificate": {**right, "ssl.truststore.location": str(foreign.ca_path)},
    }
    for number, (said, config) in enumerate(wrong.items()):
        directory = tmp_path / str(number)
        directory.mkdir()
        pair = redirected(directory, lab, config)
        drill = pair.start(DrillKind.PLANNED, STRICT)
        result = check_of(drill, "D51")
        print(result)
        assert result.outcome is DrillCheckOutcome.FAIL
        assert said in result.evidence and "secret" not in result.evidence
        assert "drill.redirect.config" in result.hint
        assert drill.figures.opened_ms is None
        assert [front.states[server] for server in front.SOURCE] == ["ready", "ready"]
        assert "secret" not in str(drill)


def test_a_login_that_only_the_target_refuses_is_said(tmp_path: Path, lab: _Lab) -> None:
    """The name has moved, and does not count as moved: once the user is there, it is repeated."""
    _, west, _, authority = lab
    pair = redirected(tmp_path, lab, java_login(authority, _USER, _PASSWORD))
    create_scram_users(west, {_USER: "forgotten"})
    try:
        leaves = Leaves(phase=DrillPhase.REDIRECT, text="rejected the login")
        with pytest.raises(Left):
            pair.start(DrillKind.PLANNED, STRICT, leaves)
        (drill,) = pair.drills()
        record = drill.record(DrillPhase.REDIRECT)
        assert record.status is not PhaseStatus.DONE and "secret" not in f"{drill}{leaves.shown}"
    finally:
        create_scram_users(west, {_USER: _PASSWORD})
    drill = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    assert drill.status is DrillStatus.DONE
    assert drill.record(DrillPhase.REDIRECT).status is PhaseStatus.DONE
