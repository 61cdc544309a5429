"""Checks before a job starts, shown as they complete, followed by the confirmation."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from textual.containers import VerticalScroll

from k2ktui.config.model import PipelineConfig
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.severity import Severity
from k2ktui.engine.severity import SeverityLabel as Mark
from k2ktui.errors import K2kError, fix_text
from k2ktui.jobs.checks import start_checks
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.replication.preflight.checks import Check, CheckOutcome

_MARKS = {
    CheckOutcome.PASS: Mark(Severity.OK, "pass"),
    CheckOutcome.FAIL: Mark(Severity.BAD, "FAIL"),
    CheckOutcome.WARN: Mark(Severity.WARN, "warning"),
    CheckOutcome.UNKNOWN: Mark(Severity.UNKNOWN, "could not check"),
}
_ORDER = (CheckOutcome.FAIL, CheckOutcome.WARN, CheckOutcome.UNKNOWN, CheckOutcome.PASS)
_INDENT = 4


class StartDialog(Confirm):
    """Checks a pipeline, then asks; the result is whether the operator agreed.

    The name can be typed while the checks run. The button stays disabled until they are over, and
    if a fatal one has failed.

    Args:
        config: the pipeline.
        verb: ``Start`` or ``Restart``.
        lines: additional text to show.
        restart: whether the pipeline's job on this host is about to be stopped.
        kind: what the job does.
    """

    def __init__(
        self,
        config: PipelineConfig,
        verb: str,
        lines: Sequence[str],
        *,
        restart: bool = False,
        kind: RunKind = RunKind.COPY,
    ) -> None:
        what = "k2ktui sync for " if kind is RunKind.SYNC else ""
        title = f"{verb} {what}{formatting.name(config.name, 60)}"
        canceled = "Nothing was stopped or started." if restart else "Nothing was started."
        # A copy goes on where it stopped; what k2ktui sync commits is not taken back by a stop.
        undoable = kind is RunKind.COPY
        super().__init__(title, (), config.name, verb, canceled=canceled, undoable=undoable)
        self._kind = kind
        self._config, self._more, self._restart = config, tuple(lines), restart
        self._checks: list[Check] = []
        self._over = False

    def on_mount(self) -> None:
        """Start the checks. Textual also calls the base class's handler."""
        self.run_worker(self._check, group="checks", thread=True, exit_on_error=False)

    def _check(self) -> None:
        try:
            for check in start_checks(self._config, restart=self._restart, kind=self._kind):
                if not self._report(check):
                    return
        except K2kError as error:
            self._report(Check.fails("checks", error.message, error.hint, fatal=True))
        except Exception as error:  # a bug in k2ktui must not look like a pass
            what = f"internal error in k2ktui ({type(error).__name__})"
            self._report(Check.fails("checks", what, "Report it.", fatal=True))
        self._report(None)

    def _report(self, check: Check | None) -> bool:
        """Show a check (None ends the checks); return whether the dialog is still open."""
        if not (self.is_attached and self.app.is_running):
            return False
        self.app.call_from_thread(self._add, check)
        return True

    def _add(self, check: Check | None) -> None:
        if not self.is_attached:
            return
        if check is None:
            self._over = True
            # The most important results must be visible without scrolling.
            self._checks.sort(key=lambda check: _ORDER.index(check.outcome))
        else:
            self._checks.append(check)
        self._show()
        self.update_button()
        text = self.query_one("#confirm-text", VerticalScroll)
        self.call_after_refresh(text.scroll_home if self._over else text.scroll_end, animate=False)

    def details(self) -> list[Line]:
        """Return the additional text, and the checks so far."""
        lines: list[Line] = [(Cell(line),) for text in self._more for line in self._wrap(text, 0)]
        return [*lines, *(line for check in self._checks for line in self._lines_of(check))]

    def why_not_yet(self) -> str:
        """Return that checks still run, or that one of them prevents the start."""
        if any(map(_blocks, self._checks)):
            return "it cannot be started"
        return "" if self._over else "the checks still run"

    def state(self) -> list[Line]:
        """Return that checks run, or what has failed."""
        if not self._over:
            return [(Cell("checking …", Tone.INFO),)]
        failed = [check for check in self._checks if check.outcome is CheckOutcome.FAIL]
        if any(map(_blocks, failed)):
            what = "k2ktui sync" if self._kind is RunKind.SYNC else "The pipeline"
            text = f"{what} cannot be started. Fix: correct what failed; Esc closes."
            return [(Cell(text, Tone.BAD),)]
        if not failed:
            return []
        names = ", ".join(check.name for check in failed)
        text = f"Failed checks that do not prevent a start: {names}."
        return [(Cell(line, Tone.WARN),) for line in self._wrap(text, 0)]

    def _lines_of(self, check: Check) -> list[Line]:
        mark = glyphs_of(self).mark(_MARKS[check.outcome])
        detail = "  ".join(formatting.message(line) for line in check.detail.splitlines())
        first, *rest = self._wrap(f"{check.name}: {detail}", len(mark.text) + 1) or [check.name]
        lines: list[Line] = [(mark, Cell(f" {first}"))]
        if check.outcome is CheckOutcome.PASS:
            return lines  # a pass takes one line, cut if necessary
        more = [*rest, *(formatting.message(line) for line in fix_text(check.hint).splitlines())]
        for text in more:
            for part in self._wrap(text, _INDENT):
                lines.append((Cell(" " * _INDENT + part, Tone.MUTED),))
        return lines

    def _wrap(self, text: str, indent: int) -> list[str]:
        width = min(92, self.app.size.width * 96 // 100) - 6
        return textwrap.wrap(text, max(20, width - indent))


def _blocks(check: Check) -> bool:
    return check.fatal and check.outcome is CheckOutcome.FAIL
