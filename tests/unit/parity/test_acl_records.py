"""ACLs as items, rows and records: what is read back, and what is never acted on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.model import ParitySection
from k2ktui.engine.acl import (
    ALLOW,
    ANY,
    DENY,
    EVERYONE,
    GROUP,
    LITERAL,
    OPERATIONS,
    PREFIXED,
    TOPIC,
    Acl,
    is_fence,
)
from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.parity.acl_items import acl_differences, acl_item, describe_acls, read_acl
from k2ktui.engine.parity.acls import AclMapping, compare_acls, map_acls
from k2ktui.engine.parity.model import ParityAction, ParityItem
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.records.wanted_acls import WantedAclsKey, WantedAclsRecord
from k2ktui.engine.strict_json import MalformedRecord

READ = Acl(TOPIC, "t", LITERAL, "User:ann", ANY, "READ", ALLOW)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@st.composite
def acls(draw: st.DrawFn) -> Acl:
    kind = draw(st.sampled_from(sorted(OPERATIONS)))
    return Acl(
        kind,
        draw(NAMES),
        draw(st.sampled_from((LITERAL, PREFIXED))),
        f"User:{draw(NAMES)}",
        draw(st.sampled_from((ANY, "10.0.0.1"))),
        draw(st.sampled_from(sorted(OPERATIONS[kind]))),
        draw(st.sampled_from((ALLOW, DENY))),
    )


@given(acls())
def test_an_item_is_read_back(acl: Acl) -> None:
    assert read_acl(acl_item(acl)) == acl


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC LITERAL t", "ALLOW READ *"),
        ("TOPIC t", "ALLOW READ * User:ann"),
        ("TOPIC ANY t", "ALLOW READ * User:ann"),
        ("TOPIC LITERAL t", "PERMIT READ * User:ann"),
        ("BROKER LITERAL kafka-cluster", "ALLOW ALTER * User:ann"),
        ("TOPIC LITERAL t", "ALLOW CLUSTER_ACTION * User:ann"),
    ],
)
def test_an_item_that_parity_does_not_copy(name: str, key: str) -> None:
    with pytest.raises(MalformedRecord):
        read_acl(ParityItem(ParityKind.ACL, name, key))


@given(st.lists(acls().filter(lambda acl: not is_fence(acl)), unique=True, max_size=6))
def test_the_record_is_read_back(wanted: list[Acl]) -> None:
    record = WantedAclsRecord("cluster", 7, tuple(wanted[::2]), tuple(wanted[1::2]))
    assert read_state_key(state_key("g", record.key)) == ("g", WantedAclsKey())
    assert read_state_value(record.key, state_value(record)) == record
    order = [acl.permission for acl in record.all]
    assert order == sorted(order, reverse=True) and set(record.all) == set(wanted)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "BROKER", "name": "kafka-cluster", "operation": "ALTER"},
        {"operation": "ANY"},
        {"pattern": "MATCH"},
        {"permission": "ANY"},
        {"principal": "ann"},
        {"name": ""},
        {"principal": EVERYONE, "operation": "WRITE", "permission": DENY},
    ],
)
def test_a_record_that_nobody_acts_on(change: dict[str, str]) -> None:
    record = WantedAclsRecord("cluster", 7, (replace(READ, **cast(Any, change)),))
    with pytest.raises(MalformedRecord):
        read_state_value(record.key, state_value(record))


def test_a_record_of_another_shape() -> None:
    body = json.loads(state_value(WantedAclsRecord("cluster", 7, (READ,))))
    for change in ({"acls": [["TOPIC"]]}, {"acls": [[*body["acls"][0][:-1], 1]]}, {"at": -1}):
        with pytest.raises(MalformedRecord):
            read_state_value(WantedAclsKey(), json.dumps({**body, **change}).encode())


def test_rows_of_a_plan() -> None:
    write = replace(READ, operation="WRITE")
    fence = replace(write, principal=EVERYONE, permission=DENY)
    gone, own = replace(READ, principal="User:gone"), replace(READ, principal="User:own")
    drills = replace(fence, name="t2")
    mapping = AclMapping({"t": ("t",), "t2": ("t2",)}, {"t", "t2"}, lambda _: False)
    mapped = map_acls([READ, write, fence], mapping)
    target = [gone, own, drills]
    difference = compare_acls(mapped, target, mapping, {gone})

    def rows(mode: str = "report", **rules: Any) -> dict[Acl, tuple[ParityAction, str]]:
        differences = acl_differences(
            difference,
            mapped.not_copied,
            target,
            ParitySection(**rules).compares,
            cast(Any, mode),
            denied={"t2"},
        )
        return {read_acl(row.item): (row.action, row.why) for row in differences}

    by_acl = rows()
    assert {acl: action for acl, (action, _) in by_acl.items()} == {
        READ: ParityAction.SET,
        write: ParityAction.REPORT,
        gone: ParityAction.REMOVE,
        drills: ParityAction.REPORT,
        fence: ParityAction.REPORT,
    }
    assert "parity.acls.write is report" in by_acl[write][1]
    assert "a drill has set it" in by_acl[drills][1] and "not copied" in by_acl[fence][1]
    assert "opens the target" in rows("afterFailover")[write][1]
    assert rows("now")[write][0] is ParityAction.SET
    assert set(rows(include=("User:a.*",))) == {READ, write}
    assert set(rows(exclude=(r"User:\*",))) == {READ, write, gone}


def test_acls_as_lines() -> None:
    group = replace(READ, kind=GROUP, name="g", pattern=PREFIXED, host="10.0.0.1")
    hostile = replace(READ, name="\x1b[2J")
    assert describe_acls([READ, replace(READ, name="s"), group, hostile]) == [
        r"ALLOW User:ann READ on TOPIC \x1b[2J, s, t",
        "ALLOW User:ann READ on GROUP g prefixed from 10.0.0.1",
    ]
