"""Forgeries of signed reports, of the state topic, and of both: the public key alone finds them.

What it cannot find is in docs/security.md, and in the last tests here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k2ktui.drill.evidence.directory import signature_path
from k2ktui.drill.evidence.document import Place
from k2ktui.drill.evidence.verification import compare_reports, verify_files
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome
from k2ktui.engine.drill.model import Drill, DrillFigures, DrillStatus, GroupResult
from tests.support.drill.made_drills import rehearsed, switched_over
from tests.support.drill.signed import Signings, make_document

# Returns the reports that are shown beside the signed ones; most forgeries show none.
Forgery = Callable[[Signings], Sequence[Path] | None]
FORGERIES: list[Forgery] = []


def forgery(function: Forgery) -> Forgery:
    FORGERIES.append(function)
    return function


def lie(body: Any) -> None:
    """Let a report say what did not happen."""
    body["report"]["summary"][0] = "The planned drill of orders succeeded."


# Forged files.


@forgery
def a_byte_is_changed(files: Signings) -> None:
    content = bytearray(files.paths[2].read_bytes())
    content[len(content) // 2] ^= 1
    files.put(files.paths[2], bytes(content))


@forgery
def a_byte_is_appended(files: Signings) -> None:
    files.put(files.paths[2], files.paths[2].read_bytes() + b"\n")


@forgery
def the_end_is_cut_off(files: Signings) -> None:
    files.put(files.paths[2], files.paths[2].read_bytes()[:-2])


@forgery
def a_field_is_changed_and_serialized_again(files: Signings) -> None:
    files.change(files.paths[2], lambda body: body["figures"].update(rpo_records=7))


@forgery
def the_same_content_is_serialized_otherwise(files: Signings) -> None:
    body = json.loads(files.paths[2].read_bytes())
    files.put(files.paths[2], json.dumps(body).encode())


@forgery
def the_result_is_changed(files: Signings) -> None:
    files.change(files.paths[2], lie)


@forgery
def the_result_is_changed_and_another_key_signs(files: Signings) -> None:
    files.change(files.paths[2], lie, files.other)


@forgery
def another_key_signs_as_itself(files: Signings) -> None:
    forged = make_document(rehearsed(1), files.other, Place(3, files.digest(1)))
    files.put(files.paths[2], forged, files.other)


@forgery
def another_key_signs_in_the_name_of_the_right_one(files: Signings) -> None:
    forged = make_document(rehearsed(1), files.key, Place(3, files.digest(1)))
    files.put(files.paths[2], forged, files.other)


@forgery
def the_signature_is_random(files: Signings) -> None:
    signature_path(files.paths[2]).write_bytes(bytes(range(64)))


@forgery
def the_signature_is_of_another_report(files: Signings) -> None:
    other = signature_path(files.paths[1]).read_bytes()
    signature_path(files.paths[2]).write_bytes(other)


@forgery
def the_signature_is_missing(files: Signings) -> None:
    signature_path(files.paths[2]).unlink()


@forgery
def the_signature_is_empty(files: Signings) -> None:
    signature_path(files.paths[2]).write_bytes(b"")


@forgery
def the_signature_is_too_long(files: Signings) -> None:
    path = signature_path(files.paths[2])
    path.write_bytes(path.read_bytes() * 2)


@forgery
def two_reports_are_swapped_but_not_their_signatures(files: Signings) -> None:
    files.swap(files.paths[1], files.paths[2])


@forgery
def a_report_of_another_key_is_added(files: Signings) -> None:
    files.sign(replace(rehearsed(1), id="forged"), files.other)


@forgery
def a_report_is_renumbered(files: Signings) -> None:
    files.change(files.paths[4], lambda body: body.update(sequence=4))


@forgery
def the_pipeline_is_renamed(files: Signings) -> None:
    files.change(files.paths[2], lambda body: body["report"].update(pipeline="payments"))


@forgery
def the_time_is_changed(files: Signings) -> None:
    files.change(files.paths[2], lambda body: body.update(signed_ms=body["signed_ms"] + 86_400_000))


@forgery
def the_cluster_is_changed(files: Signings) -> None:
    files.change(files.paths[2], lambda body: body["report"].update(target_cluster="prod"))


@forgery
def what_was_compared_is_changed(files: Signings) -> None:
    files.change(files.paths[2], lambda body: body["reads"][0].update(sha256="0" * 64))


# Files as they were signed, but not all of them, or not in their places.


@forgery
def a_report_in_the_middle_is_dropped(files: Signings) -> None:
    files.remove(files.paths[2])


@forgery
def several_reports_in_the_middle_are_dropped(files: Signings) -> None:
    for path in files.paths[1:4]:
        files.remove(path)


@forgery
def one_is_dropped_and_its_number_given_to_the_next(files: Signings) -> None:
    """The sequence was continued without it: the next one names another one before it."""
    files.remove(files.paths[4])
    middle = files.paths[3].read_bytes(), signature_path(files.paths[3]).read_bytes()
    files.remove(files.paths[3])
    files.sign(replace(rehearsed(1), id="other4"))
    files.sign(replace(rehearsed(0.5), id="other5"))
    files.remove(files.documents[3])
    files.paths[3].write_bytes(middle[0])
    signature_path(files.paths[3]).write_bytes(middle[1])


@forgery
def two_reports_have_one_number(files: Signings) -> None:
    """A fork: the newest one was taken away, another drill signed, and it was put back."""
    last = files.paths[4]
    taken = last.read_bytes(), signature_path(last).read_bytes()
    files.remove(last)
    files.sign(replace(rehearsed(1), id="another"))
    last.write_bytes(taken[0])
    signature_path(last).write_bytes(taken[1])


@forgery
def a_drill_is_signed_twice(files: Signings) -> None:
    """Its first report was taken away until it was signed again."""
    first = files.paths[4]
    renamed = first.rename(first.with_name("orders-000005.aside.json"))
    signature_path(first).rename(signature_path(renamed))
    files.sign(files.drills[4])


@forgery
def the_sequence_begins_again(files: Signings) -> None:
    """As if all former drills had not been: signed in an empty directory, and shown with them."""
    again = Signings.__new__(Signings)
    again.directory, again.key = files.directory.parent / "again", files.key
    path = again.sign(replace(rehearsed(1), id="again"))
    for part in (path, signature_path(path)):
        part.rename(files.directory / part.name)


@forgery
def the_clock_was_set_back(files: Signings) -> None:
    files.sign(replace(rehearsed(10_000), id="backdated"))


@forgery
def signed_json_is_not_evidence(files: Signings) -> None:
    files.put(files.paths[2], b'{"format": "k2ktui plan", "v": 1}', files.key)


@forgery
def a_key_appears_twice(files: Signings) -> None:
    content = files.paths[2].read_bytes()
    twice = content.replace(b'"sequence": 3,', b'"sequence": 9,\n "sequence": 3,')
    files.put(files.paths[2], twice, files.key)


# The state topic was forged, with all hashes computed anew: its report is shown with the signed
# ones.


def shown(files: Signings, drill: Drill) -> list[Path]:
    return [files.write_report(drill)]


@forgery
def the_topic_says_that_nothing_is_missing(files: Signings) -> Sequence[Path]:
    return shown(files, replace(files.drills[2], figures=DrillFigures(rpo_records=9)))


@forgery
def the_topic_has_another_check(files: Signings) -> Sequence[Path]:
    check = CheckResult("D01", "Both answer", DrillCheckOutcome.PASS, "both answer")
    return shown(files, replace(files.drills[2], checks=(check,)))


@forgery
def the_topic_has_another_group(files: Signings) -> Sequence[Path]:
    group = GroupResult("invented", 1, 0, 0, 0, 10)
    return shown(files, replace(files.drills[2], groups=(group,)))


@forgery
def the_topic_has_another_end(files: Signings) -> Sequence[Path]:
    return shown(files, replace(files.drills[2], status=DrillStatus.ABORTED))


@forgery
def the_topic_has_another_time(files: Signings) -> Sequence[Path]:
    return shown(files, replace(files.drills[2], started_ms=1, ended_ms=2))


@forgery
def the_topic_has_other_operators(files: Signings) -> Sequence[Path]:
    return shown(files, replace(files.drills[2], started_by="nobody@nowhere"))


@forgery
def the_topic_has_other_events(files: Signings) -> Sequence[Path]:
    return shown(files, replace(files.drills[2], events=()))


@forgery
def the_topic_has_a_drill_that_never_was(files: Signings) -> Sequence[Path]:
    return shown(files, replace(switched_over(), id="20261121-999999-dddd"))


@forgery
def the_topic_has_the_drill_of_another_pipeline(files: Signings) -> Sequence[Path]:
    return shown(files, replace(files.drills[2], pipeline="payments"))


@forgery
def the_topic_and_the_file_are_changed_alike(files: Signings) -> Sequence[Path]:
    forged = replace(files.drills[2], figures=DrillFigures(rpo_records=0))
    place = Place(3, files.digest(1))
    files.put(files.paths[2], make_document(forged, files.key, place))
    return shown(files, forged)


@forgery
def the_topic_and_the_file_are_changed_alike_and_another_key_signs(
    files: Signings,
) -> Sequence[Path]:
    forged = replace(files.drills[2], figures=DrillFigures(rpo_records=0))
    place = Place(3, files.digest(1))
    files.put(files.paths[2], make_document(forged, files.other, place), files.other)
    return shown(files, forged)


@forgery
def the_topic_is_forged_and_the_signed_report_dropped(files: Signings) -> Sequence[Path]:
    files.remove(files.paths[2])
    return shown(files, replace(files.drills[2], figures=DrillFigures(rpo_records=0)))


@pytest.fixture
def files(tmp_path: Path) -> Signings:
    return Signings(tmp_path)


def test_what_was_not_forged_has_no_problem(files: Signings) -> None:
    verified = files.verify()
    assert verified.problems == () and verified.notes == ()
    assert [one.place.sequence for one in verified.evidence] == [1, 2, 3, 4, 5]
    reports = [files.write_report(drill, f"{drill.id}.json") for drill in files.drills]
    assert compare_reports(verified.evidence, reports) == []


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_forgeries_are_found(forge: Forgery, files: Signings) -> None:
    reports = forge(files) or ()
    verified = files.verify()
    problems = [*verified.problems, *compare_reports(verified.evidence, reports)]
    assert problems, forge.__name__
    if reports:  # what the topic says is not what was signed, whatever became of the files
        assert compare_reports(verified.evidence, reports)


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (a_report_in_the_middle_is_dropped, "number 3 is missing"),
        (several_reports_in_the_middle_are_dropped, "numbers 2 to 4 are missing"),
        (two_reports_have_one_number, "two different reports have number 5"),
        (one_is_dropped_and_its_number_given_to_the_next, "was signed after another number 4"),
        (a_drill_is_signed_twice, "20261121-000004-d1d1 was signed twice, as numbers 5 and 6"),
        (the_sequence_begins_again, "two different reports have number 1"),
        (the_clock_was_set_back, "number 6 was signed before number 5"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_wrong_with_a_sequence_is_named(forge: Forgery, said: str, files: Signings) -> None:
    forge(files)
    assert any(said in problem for problem in files.verify().problems)


def test_there_are_enough_forgeries() -> None:
    assert len(FORGERIES) >= 30


@given(place=st.integers(0, 1 << 30), flip=st.integers(1, 255), of_signature=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_changed_byte_is_found(
    files: Signings, place: int, flip: int, of_signature: bool
) -> None:
    path = files.paths[0]
    changed = signature_path(path) if of_signature else path
    before = changed.read_bytes()
    content = bytearray(before)
    content[place % len(content)] ^= flip
    try:
        changed.write_bytes(content)
        (one,) = verify_files([path], [files.key.public]).files
        assert one.evidence is None and one.problem
    finally:
        changed.write_bytes(before)


# What cannot be found, as docs/security.md says.


def test_the_newest_reports_may_be_missing(files: Signings) -> None:
    files.remove(files.paths[4])
    files.remove(files.paths[3])
    assert files.verify().problems == ()


def test_the_oldest_reports_may_be_missing_which_is_noted(files: Signings) -> None:
    files.remove(files.paths[0])
    verified = files.verify()
    assert verified.problems == ()
    (note,) = verified.notes
    assert "begin with number 2" in note and "1 earlier report" in note


def test_who_has_the_key_can_sign_all_anew(files: Signings) -> None:
    for path in files.paths:
        files.remove(path)
    for drill in files.drills[1:]:
        files.sign(replace(drill, figures=DrillFigures(rpo_records=0)))
    assert files.verify().problems == ()
