"""The operator of a site drill at a screen: its threads show their progress and ask here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from k2ktui.console.drill_operator import StoppedHere
from k2ktui.engine.drill.site import SiteDrill
from k2ktui.site.operator import SiteQuestion
from k2ktui.text import safe_text

_LOOK_S = 0.2


@dataclass(eq=False)
class SiteAsk:
    """A question of a site drill that waits for an answer.

    Attributes:
        question: what is asked.
        site: the site drill; None if it was not begun yet.
    """

    question: SiteQuestion
    site: SiteDrill | None
    _answered: threading.Event = field(default_factory=threading.Event)
    agreed: bool = False

    def answer(self, agreed: bool) -> None:
        """Give the answer; only the first one counts."""
        if not self._answered.is_set():
            self.agreed = agreed
            self._answered.set()

    @property
    def is_open(self) -> bool:
        """Whether it has no answer yet."""
        return not self._answered.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for an answer; return whether there is one."""
        return self._answered.wait(seconds)


class SiteScreenOperator:
    """Passes progress and questions on to a screen; used by the threads of a site drill.

    Args:
        show: called with the site drill at every change, on a thread.
        ask: called with a question, on a thread; the screen answers it later.
        can_stop: whether :meth:`stop` ends the threads; an abort is not left half-way.
    """

    def __init__(
        self,
        show: Callable[[SiteDrill], None],
        ask: Callable[[SiteAsk], None],
        *,
        can_stop: bool = True,
    ) -> None:
        self._show, self._ask, self._can_stop = show, ask, can_stop
        self._stopping = threading.Event()

    @property
    def stopping(self) -> bool:
        """Whether the site drill was stopped here."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Let every member stop at its next step; the site drill stays where it is."""
        if self._can_stop:
            self._stopping.set()

    def show(self, site: SiteDrill) -> None:
        """Show the site drill.

        Raises:
            StoppedHere: the operator has stopped it here.
        """
        self._show(site)
        if not site.is_over:
            self._stop_if_told(site)

    def confirm(self, site: SiteDrill | None, question: SiteQuestion) -> bool:
        """Wait for the operator's answer.

        Raises:
            StoppedHere: the operator has stopped it here.
        """
        asked = SiteAsk(question, site)
        self._ask(asked)
        while not asked.wait(_LOOK_S):
            self._stop_if_told(site)
        return asked.agreed

    def _stop_if_told(self, site: SiteDrill | None) -> None:
        if not self._stopping.is_set():
            return
        name = safe_text(site.id) if site is not None else ""
        raise StoppedHere(
            f"site drill {name} was stopped here" if name else "the site drill was not begun",
            unchanged="It stays where it is." if name else "Nothing was changed.",
            hint=f"Press R, or run k2ktui drill resume {name} -d DIR." if name else "",
        )
