"""What a drill asks of the other members of its site drill."""

from __future__ import annotations

from k2ktui.drill.peers import Peers
from k2ktui.site.run import MemberRun


def test_a_member_of_a_site_drill_answers_every_question_itself() -> None:
    """One that it does not answer would be answered as for a drill of its own."""
    questions = {name for name in vars(Peers) if not name.startswith("_")}
    assert questions and questions <= vars(MemberRun).keys()
