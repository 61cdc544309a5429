"""A trigger beside a lap's job: what the table says."""

from __future__ import annotations

from bench.streaming import PARTS, WHOLE, Turn, section


def test_triggers_are_divided_by_the_jobs_of_their_turn() -> None:
    def triggers(*whole: int) -> tuple[dict[str, int], ...]:
        return tuple({WHOLE: ms, **dict.fromkeys(PARTS, ms // 10)} for ms in whole)

    turns = [
        Turn((40.0, 50.0, 60.0), triggers(100, 100, 400), triggers(50, 100)),
        Turn((100.0,), triggers(300), triggers(100)),
    ]
    text = section(turns, 2, "local[2]", 0.1)
    assert "| plain job | 4 | 55 (40 to 100) | |" in text
    assert "| trigger, `foreachBatch` | 4 | 200 (100 to 400) | 2.5 (2.0 to 3.0) |" in text
    assert "| trigger, `noop` | 3 | 100 (50 to 100) | 1.2 (1.0 to 1.5) |" in text
    assert "| `walCommit` | " in text and "| 20 (10 to 40) | 10 (5 to 10) |" in text
