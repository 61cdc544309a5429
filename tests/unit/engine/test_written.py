"""Which commits are ours: what is recorded before and after them, whatever happens in between."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from k2ktui.engine.moves.choice import Choice
from k2ktui.engine.moves.journal import WrittenKey
from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.moves.written import (
    LARGEST_NUMBER,
    PENDING_MS,
    OffsetWrite,
    Ours,
    WrittenCommit,
    WrittenCommits,
    announce,
    choice_in_force,
    find_ours,
    join,
    merge,
    read_back,
    recorded_metadata,
)
from k2ktui.engine.records.mapping_version import MappingVersion
from tests.support.schedule.examples import examples

AT = ("t", 0)
OLD, NEW = MappingVersion(1, 50), MappingVersion(1, 90)
NOW_MS = 1_795_252_312_786
Value = tuple[int, str]


def commit(
    after: Value | None, before: Value | None = None, version: MappingVersion | None = NEW
) -> OffsetWrite:
    old, old_metadata = before or (None, "")
    offset, metadata = after or (None, "")
    new = None if after is None else version
    return OffsetWrite("g", *AT, old, old_metadata, offset, metadata, None, new)


def announced(known: WrittenCommits | None, new: OffsetWrite, writer: str = "w") -> WrittenCommits:
    record = announce(known, "g", [new], writer, NOW_MS, is_current=True)
    assert record is not None
    return record


def seen(
    known: WrittenCommits, old: OffsetWrite, now: Value | None, *, known_outcome: bool = True
) -> WrittenCommits:
    read = read_back(known, "g", [(old, now, known_outcome)], "w", NOW_MS)
    return read or known


def ours(known: WrittenCommits | None, value: Value, prefix: str = "k2k_") -> Ours | None:
    return find_ours(known, AT, *value, prefix)


def test_a_commit_is_ours_before_and_after_it_is_read_back() -> None:
    first, second = commit((100, "a"), version=OLD), commit((120, "b"), (100, "a"))
    known = announced(None, first)
    assert ours(known, (100, "a")) == Ours(OLD), "a crash right after the commit"
    known = seen(known, first, (100, "a"))
    known = announced(known, second)
    assert (ours(known, (100, "a")), ours(known, (120, "b"))) == (Ours(OLD), Ours(NEW))
    known = seen(known, second, (120, "b"))
    assert (ours(known, (100, "a")), ours(known, (120, "b"))) == (None, Ours(NEW))
    assert ours(known, (120, "")) is ours(known, (121, "b")) is None


def test_an_applications_own_commit_before_ours_is_not_recorded() -> None:
    first = commit((100, "a"))
    known = seen(announced(None, first), first, (100, "a"))
    known = announced(known, commit((120, "b"), (110, "its own")))
    assert ours(known, (110, "its own")) is None
    assert ours(known, (100, "a")) is None, "it is not there any more"
    assert ours(known, (120, "b")) == Ours(NEW)


def test_what_a_suspended_process_announced_stays_until_it_reads_it_back() -> None:
    late, other = commit((150, ""), version=OLD), commit((120, ""))
    known = announced(None, late, "suspended")
    known = announced(known, other)
    known = seen(known, other, (120, ""))
    assert ours(known, (150, "")) == Ours(OLD, overwrote_newer=True), "it commits now"
    done = read_back(known, "g", [(late, (150, ""), True)], "suspended", NOW_MS)
    assert done is not None
    assert ours(done, (150, "")) == Ours(OLD, overwrote_newer=True), "and it stays wrong"
    deliberate = read_back(known, "g", [(late, (150, ""), True)], "suspended", NOW_MS, known)
    assert deliberate is not None
    assert deliberate.commits == {AT: (WrittenCommit(150, "", OLD),)}, "it knew the newer one"
    corrected = commit((120, ""), (150, ""), MappingVersion(1, 95))
    known = seen(announced(done, corrected), corrected, (120, ""))
    assert known.commits == {AT: (WrittenCommit(120, "", MappingVersion(1, 95)),)}
    known = announced(None, late, "suspended")
    known = seen(announced(known, other), other, (120, ""))
    never = read_back(known, "g", [(late, (120, ""), True)], "suspended", NOW_MS)
    assert never is not None
    assert never.commits == {AT: (WrittenCommit(120, "", NEW),)}


def test_what_a_process_announced_an_hour_ago_is_forgotten() -> None:
    known = announced(None, commit((150, ""), version=OLD), "crashed")
    other = commit((120, ""))
    later = NOW_MS + PENDING_MS + 1
    record = announce(known, "g", [other], "w", later)
    assert record is not None
    assert ours(record, (150, "")) == Ours(OLD), "it may be what is committed"
    done = read_back(record, "g", [(other, (120, ""), True)], "w", later)
    assert done is not None
    assert ours(done, (150, "")) is None


def test_a_commit_without_an_answer_stays_announced() -> None:
    made = commit((120, ""), (100, "x"))
    known = announced(None, made)
    assert ours(seen(known, made, (100, "x"), known_outcome=False), (120, "")) == Ours(NEW)
    assert ours(seen(known, made, (100, "x")), (120, "")) is None, "it was refused"


def test_deleted_and_put_back() -> None:
    first = commit((100, "a"))
    known = seen(announced(None, first), first, (100, "a"))
    deleted = commit(None, (100, "a"))
    assert announce(known, "g", [deleted], "w", NOW_MS) is None
    assert seen(known, deleted, None).commits == {}
    restored = commit((80, "its own"), (100, "a"), version=None)
    assert announce(known, "g", [restored], "w", NOW_MS) is None
    assert seen(known, restored, (80, "its own")).commits == {}, "that is not ours"


def test_the_mark_of_earlier_releases() -> None:
    assert ours(None, (5, "k2k_3.90;mine")) == Ours(MappingVersion(3, 90))
    assert ours(None, (5, "k2k_3.90;mine"), "other_") is None
    assert ours(None, (5, "k2k_3.99999999999999999999;mine")) is None


def test_records_are_small_and_lossless() -> None:
    long = "m" * 4096
    assert recorded_metadata(long) != recorded_metadata(long[:-1] + "n")
    assert recorded_metadata("short") == "short"
    assert recorded_metadata("sha256:") != "sha256:"
    known = announced(None, commit((5, long), version=OLD))
    known = replace(known, commits={**known.commits, ("u\0", 3): (WrittenCommit(7, "é\0", NEW),)})
    raw = state_value(known)
    assert len(raw) < 300
    key = read_state_key(state_key("p", WrittenKey("g")), "p")[1]
    assert key is not None
    assert read_state_value(key, raw) == known
    assert raw.startswith(b'{"number":'), "readers find it without decoding the record"


def test_two_records_of_one_number_both_hold() -> None:
    base = seen(announced(None, first := commit((100, ""))), first, (100, ""))
    one = announced(base, commit((120, ""), (100, "")), "one")
    other = announced(base, commit((130, ""), (100, "")), "other")
    for both in (merge(one, other), merge(other, one)):
        assert ours(both, (120, "")) and ours(both, (130, "")) and ours(both, (100, ""))
        again = join(both, one)
        assert again is not None
        assert again.number == both.number + 1 == base.number + 3
        assert join(again, again) is None
    assert join(None, one) is join(one, one) is None
    assert merge(other, replace(one, number=other.number + 1)).commits == one.commits


def test_a_number_at_its_limit_stays_valid() -> None:
    known = WrittenCommits("g", LARGEST_NUMBER, {})
    record = announced(known, commit((1, "")))
    assert record.number == LARGEST_NUMBER
    assert ours(merge(known, record), (1, "")) is not None


VALUES = st.tuples(st.integers(0, 3), st.sampled_from(["", "m"]))
WRITERS = range(3)


@dataclass
class Writer:
    """A process between two of its requests."""

    name: str = ""
    step: str = "idle"
    before: int = 0
    view: Value | None = None
    looked: WrittenCommits | None = None
    unchanged: bool = False
    commit: OffsetWrite | None = None
    known: WrittenCommits | None = None
    mine: WrittenCommits | None = None
    announced: WrittenCommits | None = None
    now: Value | None = None


@dataclass
class Log:
    """The state topic, as any reader folds it."""

    newest: WrittenCommits | None = None
    records: list[WrittenCommits] = field(default_factory=list)

    def put(self, record: WrittenCommits) -> None:
        self.records.append(record)
        self.newest = record if self.newest is None else merge(self.newest, record)


def number(record: WrittenCommits | None) -> int:
    return record.number if record is not None else 0


class Machine(RuleBasedStateMachine):
    """Processes and an application write one group's offset, interrupted anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log()
        self.now: Value | None = None
        self.by: MappingVersion | None = None
        self.writers = [Writer() for _ in WRITERS]
        self.names = 0
        self.version = 0
        self.crashed_while_writing = False

    def at(self, index: int, step: str) -> Writer | None:
        writer = self.writers[index]
        return writer if writer.step == step else None

    @rule(index=st.sampled_from(WRITERS), value=VALUES, stale=st.integers(0, 3))
    def go_on(self, index: int, value: Value, stale: int) -> None:
        """The next request of a process, and its answer."""
        w = self.writers[index]
        if w.step == "idle":
            self.names += 1
            self.writers[index] = Writer(f"w{self.names}", "reads", number(self.log.newest))
        elif w.step == "reads":
            w.view, w.step = self.now, "reads again"
        elif w.step == "reads again":
            w.unchanged = number(self.log.newest) == w.before
            w.known = w.looked = self.log.newest
            self.version += 1
            version = MappingVersion(1, max(1, self.version - stale))
            w.commit, w.step = commit(value, w.view, version), "announces"
        elif w.step == "announces":
            self.announce(w)
        elif w.step == "announced":
            newest = self.log.newest
            assert w.mine is not None
            both = join(newest, w.mine)
            if both is not None:
                self.put(w, both)
            else:
                w.known, w.step = newest, "announces"
        elif w.step == "commits":
            assert w.commit is not None
            w.announced = w.known
            self.now, self.by = w.commit.commit_after, w.commit.after_version
            w.step = "reads back"
        elif w.step == "reads back":
            w.now, w.step = self.now, "reads the record"
        elif w.step == "reads the record":
            w.known, w.step = self.log.newest, "records"
        elif w.step == "records":
            assert w.commit is not None
            result = (w.commit, w.now, True)
            record = read_back(w.known, "g", [result], w.name, NOW_MS, w.looked, w.announced)
            if record is None:
                w.step = "idle"
            else:
                self.log.put(record)
                w.mine, w.step = record, "recorded"
        else:
            assert w.mine is not None
            both = join(self.log.newest, w.mine)
            if both is None:
                w.step = "idle"
            else:
                self.log.put(both)
                w.mine = both

    def announce(self, w: Writer) -> None:
        assert w.commit is not None
        current = w.unchanged and number(w.known) == w.before
        record = announce(w.known, "g", [w.commit], w.name, NOW_MS, is_current=current)
        if record is None:
            w.step = "commits"
        else:
            self.put(w, record)

    def put(self, w: Writer, record: WrittenCommits) -> None:
        self.log.put(record)
        w.mine, w.step = record, "announced"

    @rule(index=st.sampled_from(WRITERS))
    def run_through(self, index: int) -> None:
        """A process whose requests nothing comes between: nothing that is over stays."""
        is_alone = all(w.step == "idle" for w in self.writers)
        self.go_on(index, (index, "run"), 0)
        while self.writers[index].step != "idle":
            self.go_on(index, (index, "run"), 0)
        record = self.log.newest
        if is_alone and record is not None:
            # What processes that crashed have announced may still come.
            assert len([commit for commit in record.commits[AT] if not commit.pending]) == 1

    @rule(index=st.sampled_from(WRITERS))
    def crash(self, index: int) -> None:
        if self.writers[index].step in ("announced", "recorded"):
            self.crashed_while_writing = True
        self.writers[index] = Writer()

    @rule(value=st.tuples(st.integers(0, 3), st.sampled_from(["", "app"])))
    def application(self, value: Value) -> None:
        """It reads on the target; what it commits may be what we once wrote."""
        if value != self.now:
            self.now, self.by = value, None

    @invariant()
    def what_we_wrote_is_ours(self) -> None:
        if self.by is not None:
            assert self.now is not None
            own = ours(self.log.newest, self.now)
            assert own is not None
            assert own.version >= self.by

    @precondition(lambda self: not any(w.step in ("announced", "recorded") for w in self.writers))
    @invariant()
    def the_last_record_holds_it_too(self) -> None:
        """The topic is compacted: only its last record is there for who reads it later."""
        if self.by is not None and self.log.records and not self.crashed_while_writing:
            assert self.now is not None
            assert ours(self.log.records[-1], self.now) is not None

    @invariant()
    def what_only_an_application_writes_is_not(self) -> None:
        if self.now is not None and self.now[1] == "app":
            assert ours(self.log.newest, self.now) is None


def test_processes_and_an_application_that_are_interrupted_anywhere() -> None:
    chosen = settings(max_examples=examples(100), stateful_step_count=60, deadline=None)
    run_state_machine_as_test(Machine, settings=chosen)


@pytest.mark.parametrize("step", range(1, 12))
def test_a_process_that_stops_after_any_step_leaves_what_is_needed(step: int) -> None:
    """Alone, without concurrency: the record holds the next and the previous commit, no other."""
    machine = Machine()
    machine.run_through(0)
    machine.now, machine.by = (3, "app"), None
    for _ in range(step):
        machine.go_on(0, (2, "next"), 0)
    machine.what_we_wrote_is_ours()
    machine.what_only_an_application_writes_is_not()
    record = machine.log.newest
    assert record is not None
    values = {(change.offset, change.metadata) for change in record.commits[AT]}
    assert values == ({(0, "run")} if step < 4 else {(2, "next")})


CHOICE = Choice("ann@bastion1", "earliest", "s-0@40", NOW_MS)
LEFT_OUT = replace(CHOICE, value="leave-out")


def chosen(after: Value | None, before: Value | None, choice: Choice | None) -> OffsetWrite:
    return replace(commit(after, before), choice=choice)


def test_a_choice_is_recorded_before_its_commit_and_ended_by_the_next() -> None:
    first = chosen((100, "a"), None, CHOICE)
    known = announced(None, first)
    assert known.choices == {AT: CHOICE}, "a crash right after it leaves the row alone"
    known = seen(known, first, (100, "a"))
    assert known.choices == {AT: CHOICE}
    second = commit((120, "a"), (100, "a"))
    known = announced(known, second)
    assert known.choices == {AT: CHOICE}, "until the other commit is carried out"
    assert seen(known, second, (120, "a")).choices == {}
    assert seen(known, second, (100, "a")).choices == {AT: CHOICE}, "it was refused"


def test_a_choice_that_was_refused_leaves_the_one_before() -> None:
    looked = announced(None, chosen((100, "a"), None, CHOICE))
    later = replace(CHOICE, value="latest")
    refused = chosen((700, "a"), (100, "a"), later)
    known = announced(looked, refused)
    assert known.choices == {AT: later}
    read = read_back(known, "g", [(refused, (100, "a"), True)], "w", NOW_MS, looked=looked)
    assert read is not None and read.choices == {AT: CHOICE}
    unclear = read_back(known, "g", [(refused, (100, "a"), False)], "w", NOW_MS, looked=looked)
    assert unclear is None, "it may still be carried out"


@pytest.mark.parametrize("there", [None, (7, "app")])
def test_a_row_left_out_is_remembered_and_forgotten_without_a_commit(there: Value | None) -> None:
    out = replace(commit(there, there), after_version=None, choice=LEFT_OUT)
    known = announced(None, out)
    assert (known.choices, known.commits) == ({AT: LEFT_OUT}, {})
    assert read_back(known, "g", [(out, (9, "moved since"), True)], "w", NOW_MS) is None
    back = replace(out, choice=None)
    assert announce(known, "g", [back], "w", NOW_MS) is None
    assert seen(known, back, there).choices == {}


@pytest.mark.parametrize(
    ("choice", "source", "current", "holds"),
    [
        (CHOICE, "s-0@40", 3, True),
        (CHOICE, "s-0@41", 3, False),
        (CHOICE, "s-0@40", None, False),
        (LEFT_OUT, "s-0@40", None, True),
        (LEFT_OUT, "s-0@39", None, False),
    ],
)
def test_a_choice_holds_until_its_source_commit_moves(
    choice: Choice, source: str, current: int | None, holds: bool
) -> None:
    written = WrittenCommits("g", 1, {}, {AT: choice})
    assert choice_in_force(written, AT, source, current) == (choice if holds else None)
    assert choice_in_force(None, AT, source, current) is None
    assert choice_in_force(written, ("t", 1), source, current) is None


def test_choices_of_two_records_written_at_once_both_hold() -> None:
    other = replace(CHOICE, by="bob@bastion2")
    one = WrittenCommits("g", 3, {}, {AT: CHOICE})
    two = WrittenCommits("g", 3, {}, {("t", 1): other})
    assert merge(one, two).choices == merge(two, one).choices == {AT: CHOICE, ("t", 1): other}
    assert merge(one, two).number == 4
    # One that is based on an older record ends no choice of a newer one.
    assert merge(one, WrittenCommits("g", 2)).choices == {AT: CHOICE}
    assert merge(one, WrittenCommits("g", 4)).choices == {}
    joined = join(merge(one, two), one)
    assert joined is not None and joined.choices == {AT: CHOICE, ("t", 1): other}


def test_choices_are_kept_in_the_record() -> None:
    record = replace(announced(None, chosen((100, "a"), None, CHOICE)), number=5)
    value = state_value(record)
    assert read_state_value(WrittenKey("g"), value) == record
    assert b'"choices":[["t",0,"ann@bastion1","earliest","s-0@40",1795252312786]]' in value
    assert b"choices" not in state_value(replace(record, choices={})), "as earlier releases wrote"
