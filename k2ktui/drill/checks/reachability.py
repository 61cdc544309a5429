"""The clusters answer, are the right ones, and let every client role in."""

from __future__ import annotations

from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.evidence import join_preflight
from k2ktui.drill.checks.registration import ALL, MOVES, SWITCHOVERS, check
from k2ktui.engine.drill.checks import CheckFinding, DrillPhase, could_not_check, fails, passes
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.errors import ConnectionFailed, K2kError, LoginFailed
from k2ktui.replication.preflight.clusters import ROLES, SIDES
from k2ktui.replication.preflight.rights import check_rights
from k2ktui.text import counted, safe_text


@check("D01", "cluster identity", {DrillPhase.PREFLIGHT: ALL}, blocks=MOVES)
def check_identity(context: CheckContext) -> CheckFinding:
    """Pass if both clusters answer with the cluster ids that the pipeline or the drill recorded."""
    down = {side: error for side in SIDES if (error := context.down(side))}
    if down:
        text = "; ".join(error.message for error in down.values())
        hint = next(iter(down.values())).hint
        if "target" in down or context.expects_source:
            return fails(text, hint)
        return could_not_check(f"{text}: its id cannot be compared")
    ids = {side: context.cluster_id(side) for side in SIDES}
    expected = dict(zip(SIDES, _recorded_ids(context), strict=True))
    other = [side for side in SIDES if expected[side] and ids[side] != expected[side]]
    if other:
        return fails(
            "; ".join(
                f"the {side} is cluster {safe_text(ids[side])}, not {safe_text(expected[side])}"
                for side in other
            ),
            "Check bootstrap.servers: they lead to another cluster than when the pipeline began.",
        )
    known = "as recorded" if all(expected.values()) else "no ids were recorded to compare with"
    shown = ", ".join(f"{side} {safe_text(ids[side])}" for side in SIDES)
    return passes(f"both clusters answer: {shown}; {known}")


def _recorded_ids(context: CheckContext) -> tuple[str, str]:
    """Return the cluster ids that the drill knows, else those of the pipeline's last run."""
    if any(context.facts.cluster_ids) or context.flow.pipeline is None:
        return context.facts.cluster_ids
    state = context.commit_state()
    if state is None or not state.run.pair.is_known:
        return "", ""
    return state.run.pair.source, state.run.pair.target


@check("D02", "broker versions", {DrillPhase.PREFLIGHT: ALL}, blocks=MOVES, serial=True)
def check_versions(context: CheckContext) -> CheckFinding:
    """Pass if the source's brokers can be read and the target's written to, with transactions."""
    shown, lacking, unread = [], [], []
    for side in SIDES:
        try:
            version, missing = context.versions(side)
        except ConnectionFailed as error:
            unread.append(error.message)
            continue
        shown.append(f"{side} Kafka {version or 'of unknown version'}")
        if missing:
            lacking.append(f"the {side} lacks {', '.join(missing)}")
    if lacking:
        hint = "Upgrade its brokers to Kafka 2.5 or later."
        return fails("; ".join([*lacking, *shown, *unread]), hint)
    text = "; ".join([*shown, *unread])
    return could_not_check(text) if unread else passes(text)


@check(
    "D03",
    "credentials and rights",
    {DrillPhase.PREFLIGHT: ALL},
    blocks=SWITCHOVERS,
    serial=True,
)
def check_credentials(context: CheckContext) -> CheckFinding:
    """Pass if every client role can log in and has the rights that it needs."""
    logged_in, refused, unread = 0, list[K2kError](), list[K2kError]()
    for side, roles in ROLES.items():
        opened = 0
        for role in roles:
            try:
                context.probe(side, role)
                opened += 1
            except LoginFailed as error:
                refused.append(K2kError(f"{role}: {error.message}", hint=error.hint))
            except ConnectionFailed as error:
                unread.append(error)
                break  # no other role reaches it either
        if opened == len(roles):
            context.cluster(side)
            logged_in += opened
    if refused:
        return fails("; ".join(error.message for error in refused), refused[0].hint)
    logins = f"{counted(logged_in, 'client role')} can log in"
    if unread:
        reasons = "; ".join(error.message for error in unread)
        return could_not_check(f"{logins}; {reasons}", unread[0].hint)
    if context.flow.pipeline is None:
        return passes(f"{logins}; another program copies, so its rights were not checked")
    return join_preflight(check_rights(context), f"{logins}; ")


@check("D04", "clock skew", {DrillPhase.PREFLIGHT: ALL}, serial=True)
def check_clocks(context: CheckContext) -> CheckFinding:
    """Pass if the clocks of both clusters and of this machine differ by at most a bound."""
    ahead, unread, limit = dict[Side, float](), list[str](), context.limits.clock_s
    for side in SIDES:
        try:
            ahead[side] = context.clock_ahead(side)
        except K2kError as error:
            unread.append(f"{side}: {error.message}")
    shown = [
        f"{side} {abs(s):,.3f} s {'ahead' if s >= 0 else 'behind'}" for side, s in ahead.items()
    ]
    text = "; ".join([", ".join(shown), *unread] if shown else unread)
    if any(abs(seconds) > limit for seconds in ahead.values()):
        return fails(
            f"{text}; at most {limit:g} s are allowed",
            "Synchronize the clocks (NTP) of this machine and of the cluster's nodes.",
        )
    return could_not_check(text) if unread else passes(f"{text} of this machine's clock")


@check("D05", "two clusters", {DrillPhase.PREFLIGHT: ALL}, blocks=MOVES)
def check_two_clusters(context: CheckContext) -> CheckFinding:
    """Pass if source and target are different clusters."""
    source, target = (context.cluster_id(side) for side in SIDES)
    if source == target:
        return fails(
            f"source and target are the same cluster ({safe_text(source)})",
            "Correct bootstrap.servers of source.kafka or target.kafka.",
        )
    return passes(f"source {safe_text(source)}, target {safe_text(target)}")
