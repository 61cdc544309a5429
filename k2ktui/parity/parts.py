"""The kinds of values that parity compares."""

from __future__ import annotations

from k2ktui.parity.acls import ACLS
from k2ktui.parity.part import Part
from k2ktui.parity.quotas import QUOTAS
from k2ktui.parity.topic_configs import TOPIC_CONFIGS

PARTS: tuple[Part, ...] = (TOPIC_CONFIGS, QUOTAS, ACLS)
