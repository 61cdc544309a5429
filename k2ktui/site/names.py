"""Which pipelines of a directory share the clients' name, by their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from k2ktui.config.drill import DrillRedirect
from k2ktui.config.model import PipelineConfig
from k2ktui.drill.client_name import split_name
from k2ktui.drill.operations import require_redirect
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.hooks import digest_hooks
from k2ktui.engine.drill.model import DrillOptions
from k2ktui.engine.drill.site_mark import SiteMember, SiteName
from k2ktui.engine.drill.site_names import NameUse, plan_names
from k2ktui.engine.drill.site_selection import SiteSelection
from k2ktui.errors import Refused
from k2ktui.site.directory import SitePipeline
from k2ktui.text import safe_text


def read_name_use(
    config: PipelineConfig, kind: DrillKind, drill: str = "", target: str = ""
) -> NameUse | None:
    """Return what a file says about the clients' name; None if it says nothing.

    Args:
        config: the pipeline.
        kind: kind of the drill.
        drill: id of its drill; "" if the site drill does not move it.
        target: id of its target cluster, if known.
    """
    redirect = config.drill.redirect
    if redirect is None:
        return None
    digest = digest_hooks(redirect.hooks(kind))
    return NameUse(config.name, drill, target, str(redirect.name), _places(redirect), digest)


def _places(redirect: DrillRedirect) -> frozenset[str]:
    places = {address.lower() for address in split_name(redirect.name)}
    if (proxy := redirect.haproxy) is not None:
        places |= {f"{server} of {proxy.socket}" for server in (*proxy.source, *proxy.target)}
    if redirect.dns is not None:
        records = redirect.dns.move.records
        places |= {f"{record.type} records of {record.name}" for record in records}
    return frozenset(places)


def plan_site_names(
    kind: DrillKind,
    options: DrillOptions,
    selection: SiteSelection,
    members: Iterable[SiteMember],
    pipelines: Mapping[str, SitePipeline],
) -> tuple[SiteName, ...]:
    """Return the clients' names that a new site drill moves; none if it moves some groups, or
    is a rehearsal.

    Args:
        kind: its kind.
        options: what the operator chose.
        selection: what it moves.
        members: the members, in the order of the selection.
        pipelines: the pipelines of the directory, by file.

    Raises:
        Refused: a file and the options do not fit, or as for ``plan_names``.
    """
    for file in selection.members:
        try:
            require_redirect(pipelines[file.file].flow.config, kind, options)
        except Refused as error:
            raise Refused(
                f"{safe_text(file.pipeline)}: {error.message}",
                unchanged=error.unchanged,
                hint=error.hint,
            ) from error
    if options.groups:
        return ()
    uses = (
        read_name_use(pipelines[file.file].flow.config, kind, member.drill, file.target_id)
        for file, member in zip(selection.members, members, strict=True)
    )
    # A rehearsal of some pipelines tries what a drill of all of them would do.
    stay = () if kind is DrillKind.REHEARSE else selection.staying
    others = (
        read_name_use(pipelines[file.file].flow.config, kind)
        for file in stay
        if file.file in pipelines
    )
    names = plan_names([*filter(None, uses)], [*filter(None, others)])
    return () if kind is DrillKind.REHEARSE else names


def read_site_names(
    kind: DrillKind, members: Iterable[tuple[SiteMember, PipelineConfig]]
) -> tuple[SiteName, ...]:
    """Return the names of members that a site drill has already; errors as for ``plan_names``."""
    uses = (read_name_use(config, kind, member.drill, member.target) for member, config in members)
    return plan_names([*filter(None, uses)])
