"""A ``max.message.bytes`` that a cluster does not tell is unknown, not 0."""

from __future__ import annotations

import pytest

from k2ktui.kafka.topic_description import ConfigEntry
from k2ktui.replication.topics.target_settings import (
    DEFAULT_MAX_MESSAGE_BYTES,
    MAX_MESSAGE_BYTES,
    max_message_bytes,
    size_settings,
)


@pytest.mark.parametrize("value", ["", "none"])
def test_a_limit_that_is_not_told_is_unknown(value: str) -> None:
    """As 0, the check said "max.message.bytes is 0" of a target that took every record."""
    settings = {MAX_MESSAGE_BYTES: ConfigEntry(value, is_default=False)}
    assert max_message_bytes(settings) is None
    assert max_message_bytes({}) is None
    assert size_settings(settings)[0] == DEFAULT_MAX_MESSAGE_BYTES


def test_a_limit_that_is_told_counts() -> None:
    assert max_message_bytes({MAX_MESSAGE_BYTES: ConfigEntry("1000", is_default=False)}) == 1000
