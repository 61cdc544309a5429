"""How many examples the property tests try.

Each test tries a quarter of them by default, so that the fast suite stays fast. The gate and a
developer with time set ``K2KTUI_THOROUGH=1``.
"""

from __future__ import annotations

import os

THOROUGH = os.environ.get("K2KTUI_THOROUGH") == "1"


def examples(count: int) -> int:
    """Return the number of examples for a property test that deserves ``count`` of them."""
    return count if THOROUGH else max(10, count // 4)
