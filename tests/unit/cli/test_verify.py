"""``k2ktui verify`` says what its sample was drawn from."""

from __future__ import annotations

import pytest

from k2ktui.cli.records import show_verification, verification_object
from k2ktui.sync.operations import VerificationReport
from k2ktui.sync.verify.verification import Verification


def report(sampled_from: int, mapped: int) -> VerificationReport:
    return VerificationReport(Verification((), sampled_from, mapped), (), ())


def test_a_sample_of_a_part_of_the_mapping_reports_it(capsys: pytest.CaptureFixture[str]) -> None:
    show_verification("orders", report(20_000, 1_500_000), sampled=True)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("The sample is of the newest 20,000 of 1,500,000 mapped records: ")
    assert (
        verification_object(report(2, 9))["sampled_from"],
        verification_object(report(2, 9))["mapped"],
    ) == (2, 9)
    for whole, sampled in ((report(9, 9), True), (report(2, 9), False)):
        show_verification("orders", whole, sampled=sampled)
        assert "The sample" not in capsys.readouterr().out
