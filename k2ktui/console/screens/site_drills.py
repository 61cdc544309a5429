"""Screen 8 where a directory is watched: the drills of its sites; starts a new one."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.widget import Widget

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.screens.drill_facts import name_to_type
from k2ktui.console.screens.site import SiteScreen, SiteStart
from k2ktui.console.screens.site_facts import describe_hold, describe_members
from k2ktui.console.site_views import gather_sites
from k2ktui.console.visuals.panel import Tile, side_width
from k2ktui.console.widgets.choice_dialog import Choice, ChoiceDialog
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.console.widgets.drill_dialog import DrillDialog
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of, wrap_lines
from k2ktui.console.widgets.text_prompt import TextPrompt
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import DrillStatus, Fence, phases_of
from k2ktui.engine.drill.site import SiteDrill
from k2ktui.engine.drill.site_selection import (
    SiteFile,
    SiteSelection,
    describe_unknown,
    select_site,
)
from k2ktui.engine.drill.steps import needs_confirmation
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.engine.severity import Severity
from k2ktui.errors import K2kError, Refused
from k2ktui.fleet.feed import FleetFeed
from k2ktui.present import formatting
from k2ktui.present.columns import Column, figure_column
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.site_drills import judge_member, judge_site, site_columns
from k2ktui.site.directory import read_site_files
from k2ktui.site.operations import SiteChoice
from k2ktui.site.report import site_json, summarize_site
from k2ktui.text import counted, list_names, safe_message, safe_text
from k2ktui.watch.model import View

_LISTED = 12
_NONE = "No site drill yet. N starts one; a rehearsal touches no application."


@dataclass(frozen=True, slots=True)
class _Cluster:
    """A cluster that can be left: what stands for it in a command, and the files that copy it."""

    wanted: str
    name: str
    files: tuple[SiteFile, ...]


class SiteDrillsScreen(ListScreen):
    """The site drills of a directory, newest first."""

    ENTRY: ClassVar[str] = "site_drills"
    HELP: ClassVar[str | None] = """
        Drill, of a site. A site drill moves all pipelines of the directory that copy from one
        cluster, which is the site that is left. Each pipeline has a drill of its own, on its
        target; they run side by side, and are confirmed once for all. No pipeline opens its target
        before all others are verified, or were left out by a typed choice.

        N starts a site drill: you choose the kind and the cluster that is left, see which pipelines
        move, and type the site's name; a rehearsal asks only for Enter, except in production. Files
        whose source is not known are left out only if you type that, too, or with a rehearsal that
        names them. Enter opens the site drill under the cursor.

        The way back is a failback: the cluster that is left is the one on which the groups work
        now, and the reverse pipelines move. The drills of one pipeline are on its own screen 8:
        open it on screen 0.

        e exports the reports of the listed site drills as JSON, and the list as CSV.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("N", "start_drill", "New drill", id="drill.start"),
    ]
    CHANGES: ClassVar[frozenset[str]] = frozenset({"start_drill"})
    DETAILS = (SiteScreen,)
    PANEL: ClassVar[str] = "Site drills"

    def __init__(self) -> None:
        super().__init__()
        # What is drawn of drills that do not change: their ages.
        self._drawn: tuple[str, ...] = ()
        self._reading = ""

    def make_grid(self) -> Grid[SiteDrill]:
        """Create the table of site drills."""
        age: Column[SiteDrill] = figure_column(
            "age",
            "age",
            lambda site: site.started_ms,
            cell=lambda site: Cell(self._age(site)),
            width=8,
        )
        by_id = {column.id: column for column in site_columns(glyphs_of(self))}
        result = replace(
            by_id["result"], heading="result, or where its pipelines are", cell=_result_cell
        )
        names = ("site", "kind", "status")
        last = (replace(by_id["begun"], rank=5), replace(by_id["id"], rank=6))
        return Grid(
            (*(by_id[name] for name in names), age, by_id["pipelines"], result, *last),
            key=lambda site: site.id,
            search=lambda site: f"{site.id} {site.name} {site.kind} {site.status}",
            problem=lambda site: judge_site(site).severity >= Severity.WARN,
            empty=formatting.NOT_YET,
            id="sites",
        )

    def side(self) -> Iterable[Widget]:
        """Yield the panel about the site drill under the cursor."""
        yield Tile("Site drill", id="side")

    def _age(self, site: SiteDrill) -> str:
        return formatting.age(max(0.0, self.session.feed.now() - site.started_ms / 1000))

    @property
    def _feed(self) -> FleetFeed:
        feed = self.session.feed
        assert isinstance(feed, FleetFeed)
        return feed

    def show_view(self, view: View) -> None:
        """Show the site drills that the rows know of."""
        rows = self._feed.rows
        sites = gather_sites(rows)
        grid: Grid[SiteDrill] = self.query_one(Grid)
        ages = tuple(map(self._age, sites))
        if ages != self._drawn:
            self._drawn = ages
            grid.redraw()
        unread = sum(row.taken_at is None for row in rows)
        grid.empty = formatting.NOT_YET if unread else _NONE
        grid.show(sites)
        self.show_side()

    def summary(self) -> Line:
        """Return what is read for a new drill, which site drill is open, or the last rehearsal."""
        if self._reading:
            return (Cell(self._reading, Tone.INFO),)
        sites: list[SiteDrill] = list(self.query_one(Grid).rows)
        for site in sites:
            if not site.is_over:
                acts = any(member.acting for member in site.members)
                who = "somebody acts on it" if acts else "no operator acts on it"
                text = f"a {site.kind.noun} of {safe_text(site.name, 40)} is {site.status}: {who}"
                return (Cell(text, Tone.WARN),)
        for site in sites:
            if site.kind is DrillKind.REHEARSE and site.status is DrillStatus.DONE:
                return (Cell(f"last rehearsed {self._age(site)} ago"),)
        return (Cell("no site was rehearsed", Tone.WARN if sites else Tone.MUTED),)

    def show_side(self) -> None:
        """Show the site drill under the cursor: its result, and its members, the worst first."""
        panel = self.query_one("#side", Tile)
        site: SiteDrill | None = self.query_one(Grid).current
        if site is None:
            panel.label("Site drill")
            panel.show([])
            return
        width = side_width(self) - 5
        glyphs = glyphs_of(self)
        texts = [*summarize_site(site), describe_hold(site)]
        lines: list[Line] = [line for text in texts if text for line in wrap_lines(text, width)]
        lines.append(())
        for member in sorted(site.members, key=lambda one: -judge_member(one).severity):
            name = safe_text(member.pipeline, 40)
            lines.append((glyphs.mark(judge_member(member)), Cell(f"  {name}")))
        panel.label(safe_text(site.id, 40))
        panel.show(lines, judge_site(site).severity)

    def document(self) -> str | None:
        """Return the reports of the listed site drills."""
        return json.dumps({"sites": [site_json(site) for site in self.query_one(Grid).rows]})

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(SiteScreen(event.row))

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action == "start_drill" and self._reading:
            return "the clusters are being read"
        return super().refusal(action)

    # A new site drill

    @work(group=ASK)
    async def action_start_drill(self) -> None:
        """Choose kind and site, show the members, confirm, and run it."""
        chosen = await self.ask(DrillDialog("New site drill"))
        if chosen is None:
            return
        kind, options = chosen
        files = await self._read()
        if files is None:
            return
        cluster = await self._choose_cluster(files)
        if cluster is None:
            return
        selection = await self._select(files, cluster)
        if selection is None:
            return
        names = [member.pipeline for member in selection.members]
        typed = name_to_type(kind, selection.name, *self._feed.environments(names))
        # What asks once says there what it leaves out.
        if typed is not None and not await self._leave_out_unknown(selection):
            return
        # A file that is not valid may have the name of a pipeline that moves.
        unknown = [file.pipeline for file in selection.unknown if file.pipeline not in names]
        phases = phases_of(kind, redirects=options.fence is Fence.CUT_OFF)
        asked = [str(phase) for phase in phases if needs_confirmation(phase, options.fence)]
        command = cli_equivalent.site(
            [member.file for member in selection.members], kind, options, cluster.wanted, names
        )
        if await self._confirm_start(kind, selection, typed, asked, command):
            wanted = frozenset([*names, *unknown])
            choice = SiteChoice(cluster.wanted, wanted.__contains__, unknown)
            start = SiteStart(kind, options, choice, command, selection.name, len(names))
            self.app.push_screen(SiteScreen(None, start))

    async def _read(self) -> list[SiteFile] | None:
        """Return what is known of each file; reads the clusters on a thread."""
        files = self._feed.files
        read: asyncio.Future[list[SiteFile] | None]
        read = asyncio.get_running_loop().create_future()

        def done(known: list[SiteFile] | None) -> None:
            self._reading = ""
            if not read.done():  # Esc has canceled it
                read.set_result(known)
            self.show_summary()
            self.refresh_bindings()

        def failed(error: K2kError) -> None:
            self.inform_error(error)
            self.console.ignore_typing()
            done(None)

        self._reading = f"reading the clusters of {counted(len(files), 'file')}…"
        if not self.background("site", lambda: read_site_files(files), done, failed):
            return None
        self.show_summary()
        return await read

    async def _choose_cluster(self, files: Sequence[SiteFile]) -> _Cluster | None:
        """Return the cluster that is left: the only source, or the one that is chosen."""
        clusters = _list_clusters(files)
        if not clusters:
            self.inform(
                "The source of no pipeline is known: neither a source nor a run record could be "
                "read.\nNo drill was begun.",
                "error",
            )
            self.console.ignore_typing()
            return None
        if len(clusters) == 1:
            return clusters[0]
        choices = [
            Choice(cluster.wanted, _cluster_title(cluster), _cluster_text(cluster))
            for cluster in clusters
        ]
        dialog = ChoiceDialog("Which site is left?", "cluster that is left", choices)
        wanted = await self.ask(dialog)
        return next((one for one in clusters if one.wanted == wanted), None)

    async def _select(self, files: Sequence[SiteFile], cluster: _Cluster) -> SiteSelection | None:
        """Return what moves; ask for a pattern if a topic of it has two targets."""
        pattern = ".*"
        while True:
            try:
                compiled = compile_pattern(pattern)
                matches = [file.pipeline for file in files if compiled.fullmatch(file.pipeline)]
                return select_site(files, cluster.wanted, frozenset(matches).__contains__)
            except ValueError as wrong:
                why = f"The pattern is wrong: expected {safe_message(wrong)}."
            except Refused as error:
                why = f"{error.message}."
            except K2kError as error:
                self.inform_error(error)
                self.console.ignore_typing()
                return None
            question = f"{why} Which pipelines move? Type a regular expression:"
            typed = await self.ask(TextPrompt(question, canceled="No drill was begun."))
            if not typed:
                return None
            pattern = typed

    async def _leave_out_unknown(self, selection: SiteSelection) -> bool:
        """Have the operator type that files of an unknown source are left out."""
        if not selection.unknown:
            return True
        title = f"Leave out {counted(len(selection.unknown), 'file')}"
        dialog = Confirm(
            title,
            _list_unknown(selection),
            selection.name,
            "Leave out",
            canceled="No drill was begun.",
            undoable=True,
        )
        agreed = await self.ask(dialog)
        return bool(agreed)

    async def _confirm_start(
        self,
        kind: DrillKind,
        selection: SiteSelection,
        typed: str | None,
        asked: Sequence[str],
        command: str,
    ) -> bool:
        members = selection.members
        shown = [f"- {safe_text(m.pipeline, 60)} to {safe_text(m.target, 40)}" for m in members]
        more = len(shown) - _LISTED
        lines: list[str | Line] = [
            f"{counted(len(members), 'pipeline')} leave {safe_text(selection.name, 60)} together:"
            if len(members) > 1
            else f"1 pipeline leaves {safe_text(selection.name, 60)}:",
            *shown[:_LISTED],
            *([f"- and {more:,} more"] if more > 0 else []),
        ]
        if left := [file.pipeline for file in selection.unknown]:
            lines.append(f"Left out: {list_names(left, _LISTED)}.")
            lines += _list_unknown(selection) if typed is None else []
        lines += [
            "",
            f"You confirm each of these once for all: {', '.join(asked)}."
            if asked
            else "It asks for nothing else: no application is touched.",
            "",
            command,
        ]
        title = f"Start a {kind.noun} of {safe_text(selection.name, 60)}"
        dialog = Confirm(
            title, lines, typed, "Start", canceled="No drill was begun.", undoable=True
        )
        agreed = await self.ask(dialog)
        return bool(agreed)


def _list_unknown(selection: SiteSelection) -> list[str | Line]:
    return [
        f"It is not known whether these copy from {safe_text(selection.name, 60)}:",
        *(f"- {describe_unknown(file)}" for file in selection.unknown),
    ]


def _result_cell(site: SiteDrill) -> Cell:
    severity = judge_site(site).severity
    tone = formatting.tone_of(severity) if severity >= Severity.WARN else Tone.PLAIN
    text = summarize_site(site)[0] if site.is_over else describe_members(site)
    return Cell(safe_message(text), tone)


def _list_clusters(files: Sequence[SiteFile]) -> list[_Cluster]:
    """Return the clusters that pipelines copy from; one whose name is not its own by its id."""
    by_id: Mapping[str, list[SiteFile]] = defaultdict(list)
    for file in files:
        if file.source_id:
            by_id[file.source_id].append(file)
    ids_of: Mapping[str, set[str]] = defaultdict(set)
    for file in files:
        if file.source_id:
            ids_of[file.source].add(file.source_id)
    clusters = []
    for cluster_id, members in by_id.items():
        names = sorted({file.source for file in members if len(ids_of[file.source]) == 1})
        wanted = names[0] if names else cluster_id
        clusters.append(_Cluster(wanted, members[0].source, tuple(members)))
    return sorted(clusters, key=lambda cluster: (-len(cluster.files), cluster.wanted))


def _cluster_title(cluster: _Cluster) -> str:
    return f"{safe_text(cluster.wanted, 40)}: {counted(len(cluster.files), 'pipeline')}"


def _cluster_text(cluster: _Cluster) -> str:
    names = list_names(sorted(file.pipeline for file in cluster.files), _LISTED)
    targets = list_names(sorted({file.target for file in cluster.files}), _LISTED)
    return f"{names}; to {targets}. Cluster id {safe_text(cluster.files[0].source_id, 40)}."
