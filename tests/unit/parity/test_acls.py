"""Which ACLs the target should have: rules, and properties by what an authorizer would decide."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

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
    TRANSACTIONAL_ID,
    Acl,
    is_fence,
)
from k2ktui.engine.parity.acls import AclMapping, WantedAcls, compare_acls, map_acls

READ = Acl(TOPIC, "t", LITERAL, "User:ann", "*", "READ", ALLOW)
WRITE = replace(READ, operation="WRITE")
FENCE = replace(WRITE, principal=EVERYONE, permission=DENY)


def mapping(
    topics: Mapping[str, tuple[str, ...]], others: Collection[str] = (), **fences: str
) -> AclMapping:
    copies = {name for names in topics.values() for name in names}
    return AclMapping(topics, {*copies, *others}, lambda group: group.startswith("g"), fences)


SAME = mapping({"t": ("t",)})


def words(wanted: WantedAcls) -> list[str]:
    """What is wanted, with an asterisk if only after a failover."""
    return [f"{entry.acl}{' (*)' * entry.after_failover}" for entry in wanted.wanted]


def left(wanted: WantedAcls) -> list[str]:
    return [f"{entry.acl}: {entry.why}" for entry in wanted.not_copied]


def test_reading_is_copied_and_changes_wait_for_a_failover() -> None:
    acls = [replace(READ, operation=op) for op in ("READ", "DESCRIBE", "WRITE", "DELETE")]
    assert words(map_acls(acls, SAME)) == [
        "ALLOW User:ann DELETE on TOPIC t (*)",
        "ALLOW User:ann DESCRIBE on TOPIC t",
        "ALLOW User:ann READ on TOPIC t",
        "ALLOW User:ann WRITE on TOPIC t (*)",
    ]
    # As MirrorMaker 2 does, until the failover.
    assert words(map_acls([replace(READ, operation="ALL")], SAME)) == [
        "ALLOW User:ann ALL on TOPIC t (*)",
        "ALLOW User:ann READ on TOPIC t",
    ]
    assert not map_acls([replace(READ, name="other")], SAME).wanted
    cluster = replace(READ, kind="BROKER", name="kafka-cluster", operation="CREATE")
    assert map_acls([cluster], SAME) == WantedAcls()


def test_groups_and_transactional_ids_wait_for_a_failover() -> None:
    group = replace(READ, kind=GROUP, name="g1")
    other = replace(group, name="other")
    prefix = replace(group, name="any", pattern=PREFIXED)
    transaction = replace(WRITE, kind=TRANSACTIONAL_ID, name="tx-", pattern=PREFIXED)
    renamed = mapping({"t": ("dr.t",)})
    assert words(map_acls([group, other, prefix, transaction], renamed)) == [
        "ALLOW User:ann READ on GROUP any prefixed (*)",
        "ALLOW User:ann READ on GROUP g1 (*)",
        "ALLOW User:ann WRITE on TRANSACTIONAL_ID tx- prefixed (*)",
    ]


def test_prefixes_stay_prefixes_where_they_cover_only_copies() -> None:
    prefix = replace(READ, pattern=PREFIXED)
    tt = {"t1": ("t1",), "t2": ("t2",)}
    assert words(map_acls([prefix], mapping(tt))) == ["ALLOW User:ann READ on TOPIC t prefixed"]
    # The target's own topic t3 must not become readable.
    assert words(map_acls([prefix], mapping(tt, {"t3"}))) == [
        "ALLOW User:ann READ on TOPIC t1",
        "ALLOW User:ann READ on TOPIC t2",
    ]
    affixed = mapping({"t1": ("dr.t1",), "x": ("dr.x",)}, {"t3"})
    assert words(map_acls([prefix], affixed)) == ["ALLOW User:ann READ on TOPIC dr.t prefixed"]
    suffixed = mapping({"t1": ("t1.dr",)})
    assert words(map_acls([prefix], suffixed)) == ["ALLOW User:ann READ on TOPIC t1.dr"]
    assert map_acls([replace(prefix, name="u")], mapping(tt)) == WantedAcls()

    create = replace(prefix, operation="CREATE")
    assert words(map_acls([create], mapping(tt))) == [
        "ALLOW User:ann CREATE on TOPIC t prefixed (*)"
    ]
    assert left(map_acls([create], suffixed)) == [
        "ALLOW User:ann CREATE on TOPIC t prefixed: CREATE: its topics have no common pattern on "
        "the target that covers only copies, and topics that do not exist yet cannot be named one "
        "by one"
    ]
    many = {f"t{n}": (f"t{n}.dr",) for n in range(1_001)}
    assert "1,001 topics" in left(map_acls([prefix], mapping(many)))[0]


def test_rules_for_all_topics() -> None:
    every = replace(READ, name=ANY)
    own = {"__k2k_state", "__consumer_offsets"}
    assert words(map_acls([every], mapping({"t": ("t",)}, own))) == [
        "ALLOW User:ann READ on TOPIC *"
    ]
    assert words(map_acls([every], mapping({"t": ("t",)}, {"own"}))) == [
        "ALLOW User:ann READ on TOPIC t"
    ]
    assert words(map_acls([every], mapping({"t": ("dr.t",)}, {"own"}))) == [
        "ALLOW User:ann READ on TOPIC dr. prefixed"
    ]
    # What * gives, a denial outside of the copied topics takes.
    denial = replace(READ, name="__consumer_offsets", permission=DENY)
    assert words(map_acls([every, denial], mapping({"t": ("t",)}, own))) == [
        "DENY User:ann READ on TOPIC __consumer_offsets",
        "ALLOW User:ann READ on TOPIC *",
    ]


def test_a_topic_that_several_are_copied_to() -> None:
    merged = mapping({"a": ("all",), "b": ("all",)})
    reads_a, reads_b = replace(READ, name="a"), replace(READ, name="b")
    only = map_acls([reads_a], merged)
    assert not only.wanted
    assert left(only) == [
        "ALLOW User:ann READ on TOPIC a: READ: all on the target also has records of b, on which "
        "the source does not allow it"
    ]
    assert words(map_acls([reads_a, reads_b], merged)) == ["ALLOW User:ann READ on TOPIC all"]
    split = mapping({"a": ("a1", "a2")})
    assert words(map_acls([reads_a], split)) == [
        "ALLOW User:ann READ on TOPIC a1",
        "ALLOW User:ann READ on TOPIC a2",
    ]


def test_what_a_drill_has_set_is_never_wanted() -> None:
    assert is_fence(FENCE)
    wanted = map_acls([FENCE, WRITE], mapping({"t": ("t",)}, t="20261127-101500-3f2a"))
    assert words(wanted) == ["ALLOW User:ann WRITE on TOPIC t (*)"]
    assert left(wanted) == [
        "DENY User:* WRITE on TOPIC t: drill 20261127-101500-3f2a has set it: it would keep "
        "clients from the target after a failover"
    ]
    # Also without the record of the drill, and those that operators write by hand.
    for fence in (
        FENCE,
        replace(FENCE, name=ANY),
        replace(FENCE, pattern=PREFIXED),
        replace(FENCE, kind=TRANSACTIONAL_ID),
        replace(FENCE, kind=GROUP, name=ANY, operation="READ"),
    ):
        wanted = map_acls([fence], SAME)
        assert not wanted.wanted and "form of a fence" in left(wanted)[0]
    # Of one that denies everything, Write is left out.
    wanted = map_acls([replace(FENCE, operation="ALL")], SAME)
    assert [entry.acl.operation for entry in wanted.wanted if not entry.after_failover] == [
        "DESCRIBE",
        "DESCRIBE_CONFIGS",
        "READ",
    ]
    assert not any(is_fence(entry.acl) for entry in wanted.wanted) and wanted.not_copied
    # One client's denial is no fence.
    assert words(map_acls([replace(WRITE, permission=DENY)], SAME)) == [
        "DENY User:ann WRITE on TOPIC t (*)"
    ]


def test_operations_that_this_release_does_not_know() -> None:
    unknown = replace(READ, kind=TRANSACTIONAL_ID, operation="UNKNOWN")
    assert left(map_acls([unknown], SAME))[0].endswith("does not know its operation")


def test_what_differs() -> None:
    source = [READ, WRITE]
    wanted = map_acls(source, SAME)
    difference = compare_acls(wanted, [], SAME)
    assert difference.missing == wanted.wanted and not difference.stale and not difference.denied

    wider = replace(READ, operation="ALL", name="*", principal=EVERYONE)
    assert compare_acls(wanted, [wider], SAME).missing == ()
    # An authorizer takes Read for Describe, of what is allowed.
    describe = map_acls([replace(READ, operation="DESCRIBE")], SAME)
    assert compare_acls(describe, [READ], SAME).missing == ()
    denied = map_acls([replace(READ, operation="DESCRIBE", permission=DENY)], SAME)
    assert compare_acls(denied, [replace(READ, permission=DENY)], SAME).missing == denied.wanted

    # Only what parity has created, and is there, can be stale.
    gone = replace(READ, principal="User:bob")
    own = replace(READ, principal="User:own")
    difference = compare_acls(wanted, [*source, gone, own], SAME, {gone, READ, FENCE})
    assert difference.stale == (gone,)
    assert compare_acls(wanted, [*source, FENCE], SAME).denied == (FENCE,)


# Few names, and one kind of resource at a time, so that rules meet.
NAMES = {
    TOPIC: ("a", "aa", "b", "own", "aown", "__consumer_offsets"),
    GROUP: ("g", "gg", "h"),
    TRANSACTIONAL_ID: ("x", "xx"),
}
USER, HOST = "User:ann", "10.0.0.1"


def rules_of(kind: str) -> st.SearchStrategy[list[Acl]]:
    patterns = st.one_of(
        st.tuples(st.sampled_from((*NAMES[kind], ANY, ANY)), st.just(LITERAL)),
        st.tuples(st.sampled_from(NAMES[kind]), st.just(PREFIXED)),
    )
    operations = sorted(OPERATIONS[kind])
    acls = st.builds(
        lambda resource, *rest: Acl(kind, *resource, *rest),
        patterns,
        st.sampled_from((USER, USER, EVERYONE)),
        st.sampled_from((ANY, ANY, HOST)),
        st.sampled_from(("READ", "ALL", "WRITE", *operations)).filter(operations.__contains__),
        st.sampled_from((ALLOW, DENY)),
    )
    return st.lists(acls, max_size=5)


KINDS = st.sampled_from((TOPIC, TOPIC, TOPIC, GROUP, TRANSACTIONAL_ID))
RULES = KINDS.flatmap(rules_of)
MAPPINGS = st.sampled_from(
    (
        {"a": ("a",), "aa": ("aa",), "b": ("b",)},
        {"a": ("dr.a",), "aa": ("dr.aa",)},
        {"a": ("a.dr",), "ab": ("ab.dr",), "b": ("b.dr",)},
        {"a": ("all",), "b": ("all",)},
        {"a": ("all", "rest"), "aa": ("all",), "b": ("b",)},
        {"a": ("aa",), "aa": ("a",)},
    )
)
OTHERS = st.sets(st.sampled_from(("own", "aown", "dr.own", "__consumer_offsets")), max_size=2)


def is_allowed(
    rules: Iterable[Acl], principal: str, host: str, operation: str, kind: str, name: str
) -> bool:
    """Decide as Kafka's StandardAuthorizer does, for one operation that is not ALL."""
    implied = {"DESCRIBE": {"READ", "WRITE", "DELETE", "ALTER"}}
    implied["DESCRIBE_CONFIGS"] = {"ALTER_CONFIGS"}
    allowed = False
    for rule in rules:
        at = rule.kind == kind and (
            name.startswith(rule.name) if rule.pattern == PREFIXED else rule.name in (name, ANY)
        )
        who = rule.principal in (principal, EVERYONE) and rule.host in (host, ANY)
        if not (at and who):
            continue
        if rule.operation in (operation, "ALL"):
            if rule.permission == DENY:
                return False
            allowed = True
        elif rule.permission == ALLOW and rule.operation in implied.get(operation, ()):
            allowed = True
    return allowed


def questions(rules: list[Acl]) -> list[tuple[str, str, str, str]]:
    """Who does what, from where, to the kind of resource that the rules are of."""
    return [
        (principal, host, operation, kind)
        for kind in {rule.kind for rule in rules}
        for operation in sorted(OPERATIONS[kind] - {"ALL"})
        for principal in (USER, "User:cid")
        for host in (HOST, "10.0.0.2")
    ]


@given(RULES, MAPPINGS, OTHERS, st.booleans())
def test_no_client_may_do_more_on_the_target_than_on_the_source(
    rules: list[Acl], topics: dict[str, tuple[str, ...]], others: set[str], after: bool
) -> None:
    names = mapping(topics, others)
    wanted = map_acls(rules, names)
    created = [entry.acl for entry in wanted.now(with_changes=after)]
    # A fence is the exception: what it denies on the source is wanted on the target.
    source = [rule for rule in rules if not is_fence(rule)]
    origins: dict[str, list[str]] = {}
    for topic, targets in topics.items():
        for target in targets:
            origins.setdefault(target, []).append(topic)
    for principal, host, operation, kind in questions(rules):
        on_target = names.target_topics if kind == TOPIC else NAMES[kind]
        for name in on_target:
            if not is_allowed(created, principal, host, operation, kind, name):
                continue
            fenced = operation == "WRITE" and any(
                is_fence(replace(rule, operation="WRITE"))
                for rule in rules
                if rule.operation == "ALL" and rule.kind == TOPIC
            )
            if fenced:
                continue
            for before in origins.get(name, [name]) if kind == TOPIC else [name]:
                asked = principal, host, operation, kind, before
                assert is_allowed(source, *asked), (name, asked)


@given(RULES, MAPPINGS, OTHERS)
def test_a_client_may_do_on_a_copy_what_it_may_do_on_its_source(
    rules: list[Acl], topics: dict[str, tuple[str, ...]], others: set[str]
) -> None:
    """Where a copy has one source topic: all of it after a failover, reading also before."""
    names = mapping(topics, others)
    wanted = map_acls(rules, names)
    created = [entry.acl for entry in wanted.now(with_changes=True)]
    before = [entry.acl for entry in wanted.now()]
    targets = [name for to in topics.values() for name in to]
    for principal, host, operation, kind in questions(rules):
        if kind == TOPIC:
            pairs = [(s, t) for s, to in topics.items() for t in to if targets.count(t) == 1]
        else:
            pairs = [(name, name) for name in NAMES[kind] if kind != GROUP or names.is_moved(name)]
        for source_name, target_name in pairs:
            asked = principal, host, operation, kind
            if not is_allowed(rules, *asked, source_name) or operation == "CREATE":
                continue
            assert is_allowed(created, *asked, target_name), (source_name, asked)
            if kind == TOPIC and operation == "READ":
                assert is_allowed(before, *asked, target_name), (source_name, asked)


@given(RULES, MAPPINGS, OTHERS, RULES)
def test_nothing_that_keeps_everyone_out_is_wanted(
    rules: list[Acl], topics: dict[str, tuple[str, ...]], others: set[str], extra: list[Acl]
) -> None:
    fences = [replace(FENCE, name=name) for name in topics]
    wanted = map_acls([*rules, *fences], mapping(topics, others))
    assert not any(is_fence(entry.acl) for entry in wanted.wanted)
    # A drill changes nothing of what is wanted, whenever it is looked at.
    plain = [rule for rule in rules if rule not in fences]
    assert wanted.wanted == map_acls(plain, mapping(topics, others)).wanted
    # What was created is not missing any more, whatever else is there.
    created = [entry.acl for entry in wanted.wanted]
    names = mapping(topics, others)
    after = compare_acls(wanted, [*created, *extra], names, created)
    assert after.missing == () and after.stale == ()
