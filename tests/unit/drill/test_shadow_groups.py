"""A drill's shadow groups are deleted, or it is said why not."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from k2ktui.drill.changes import target
from k2ktui.drill.session import Session
from k2ktui.errors import K2kError

_PREFIX = "k2k.drill.d1."
_OWN = f"{_PREFIX}orders"


class _Groups:
    """The groups of a target; ``refused``: why one of them is not deleted."""

    def __init__(self, incomplete_reason: str = "", refused: str = "") -> None:
        self.incomplete_reason, self.refused = incomplete_reason, refused
        self.asked: tuple[str, ...] = ()

    def list(self) -> dict[str, object]:
        return dict.fromkeys(["orders", _OWN, "k2k.drill.d2.orders"])

    def delete(self, names: Collection[str]) -> dict[str, str]:
        self.asked += tuple(names)
        return dict.fromkeys(names, self.refused)


def delete(groups: _Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = SimpleNamespace(groups=groups, close=lambda: None)
    monkeypatch.setattr(target, "TargetClusterReader", lambda _: reader)
    commit = SimpleNamespace(group="k2k")
    config = SimpleNamespace(coordination=SimpleNamespace(commit=commit))
    session: Any = SimpleNamespace(config=config, drill=SimpleNamespace(id="d1"))
    target.delete_shadow_groups(cast(Session, session))


def test_only_those_of_the_drill_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = _Groups()
    delete(groups, monkeypatch)
    assert groups.asked == (_OWN,)


def test_what_a_broker_did_not_list_is_not_taken_for_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups = _Groups(incomplete_reason="broker 2: no answer")
    with pytest.raises(K2kError, match="broker 2: no answer") as caught:
        delete(groups, monkeypatch)
    assert groups.asked == (_OWN,), "what was listed is deleted"
    assert "Continue" in caught.value.hint


def test_a_missing_right_is_one_possible_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(K2kError, match="it has members") as caught:
        delete(_Groups(refused="it has members"), monkeypatch)
    assert caught.value.hint.startswith("If a right is missing") and _PREFIX in caught.value.hint
