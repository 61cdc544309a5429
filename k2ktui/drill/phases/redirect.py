"""Cut the clients off from the source, and lead their name to the target.

The commands are run as hooks are; what they have done is looked at from where clients connect.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from k2ktui.config.drill import DrillRedirect
from k2ktui.drill.client_name import ask_name, find_reached, split_name
from k2ktui.drill.dns_server import DnsError
from k2ktui.drill.haproxy import explain_servers
from k2ktui.drill.hook_process import explain_unsafe_command
from k2ktui.drill.hooks import join_part, list_own_hooks, look_from_host, mark_done, run_part
from k2ktui.drill.kept_producers import list_transactional
from k2ktui.drill.phases.dns_records import (
    OTHER_SERVER,
    are_moved,
    await_caches,
    describe_records,
    explain_unmovable,
    explain_unmoved,
    may_be_lost,
)
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import find_role
from k2ktui.engine.drill.hooks import Hook, HookRole, describe_hook, show_command
from k2ktui.engine.drill.model import Fence
from k2ktui.engine.drill.redirects import (
    PRODUCER_IDS,
    NameAnswer,
    cut_addresses,
    describe_fenced,
    describe_transactional,
    explain_no_cluster,
    list_clusters,
)
from k2ktui.engine.drill.site_names import NameTurn, Turn
from k2ktui.errors import K2kError, TimedOut
from k2ktui.text import list_names, safe_text

_NAMED = 5
_RESOLVES_OTHERWISE = (
    "The records have moved: look at what this host's resolver answers, and at secondary servers"
)
_GONE = "this host's file has no drill.redirect any more"


def find_part(session: Session, role: HookRole) -> tuple[DrillRedirect, Hook] | None:
    """Return the section of this host's file with its cut-off or redirect; None without it."""
    redirect = session.config.drill.redirect
    hook = find_role(list_own_hooks(session), role)
    return None if redirect is None or hook is None else (redirect, hook)


def by_hand(session: Session, redirect: DrillRedirect, hook: Hook, action: str) -> str:
    """Return the command that does the same by hand, safe to print."""
    if hook.socket or hook.dns is not None:
        return hook.shown_command
    values = {"ACTION": action, "NAME": redirect.name, "KIND": session.drill.kind}
    values |= {"SOURCE": session.config.source.bootstrap_servers}
    values |= {"TARGET": session.config.target.bootstrap_servers}
    given = show_command(["env", *(f"K2KTUI_DRILL_{name}={text}" for name, text in values.items())])
    return f"{given} {hook.shown_command}"


def cut_off(session: Session) -> PhaseResult | None:
    """Close the clients' way to the source, and prove it; return why it is not closed, or None.

    Raises:
        TimedOut: something still answers there.
    """
    part = find_part(session, HookRole.CUT_OFF)
    if part is None:
        return failed(_GONE, "Resume the drill with a file that has it, or abort it.")
    redirect, hook = part
    turn = session.peers.find_turn(hook.phase)
    if turn.turn is Turn.WAIT and not turn.leads:
        join_part(session, hook)
    turn = _await_turn(session, hook)
    if turn.turn is Turn.HOLD:
        return failed(f"clients are not cut off: {turn.why}", session.peers.advise_stay())
    if turn.turn is Turn.FOLLOW:
        join_part(session, hook, turn.addresses)
        mark_done(session, hook, f"not run: {turn.why}")
    elif held := _close(session, redirect, hook):
        return held
    session.wait(
        hook.phase,
        lambda: _look_cut(session, redirect),
        hint="Close the clients' way to the source, established connections included.",
    )
    if reaching := find_reaching_hosts(session, redirect, hook):
        texts = [f"not proven from another host: {text}" for text in reaching]
        return failed("clients of other hosts may still reach the source", *texts)
    return None


def _await_turn(session: Session, hook: Hook) -> NameTurn:
    """Wait for the members of a site drill that share the name; return what this one does."""
    turn = session.peers.find_turn(hook.phase)
    if turn.turn is not Turn.WAIT:
        return turn

    def look() -> tuple[bool, str]:
        nonlocal turn
        turn = session.peers.find_turn(hook.phase)
        return turn.turn is not Turn.WAIT, turn.why

    session.wait(hook.phase, look, hint="See what the members wait for that share the name.")
    return turn


def _close(session: Session, redirect: DrillRedirect, hook: Hook) -> PhaseResult | None:
    """Run the cut-off; return why it was not run or has failed, or None."""
    answers = ask_name(session.config, redirect)
    is_known = session.drill.source_cluster in list_clusters(answers)
    if session.drill.kind.is_switchover and not is_known and not cut_addresses(session.drill):
        name = safe_text(redirect.name)
        return failed(
            f"the brokers behind {name} are not known, as none answers as the source",
            "Open the clients' way to the source, and resume the drill.",
        )
    if problems := run_part(session, hook, [answer.address for answer in answers]):
        return failed(*problems, f"By hand: {by_hand(session, redirect, hook, 'cut')}")
    return None


def try_cut_off(session: Session) -> tuple[str, ...]:
    """Cut clients off from a source that is lost here, and return what is not proven of it.

    It may be lost only for this host; the question before the target is opened shows what is not
    proven.
    """
    if session.drill.options.fence is not Fence.CUT_OFF or not session.drill.redirects:
        return ()
    try:
        held = cut_off(session)
    except TimedOut as error:
        return (f"it is not proven that clients are cut off from the source: {error.message}",)
    if held is None:
        return ()
    return (
        f"it is not proven that clients are cut off from the source: {held.live}",
        *held.findings,
    )


def _look_cut(session: Session, redirect: DrillRedirect) -> tuple[bool, str]:
    known = (*split_name(redirect.name), *cut_addresses(session.drill))
    reached = find_reached(session.config, redirect, known)
    return not reached, f"clients still reach {list_names(reached, _NAMED)}"


def find_reaching_hosts(session: Session, redirect: DrillRedirect, hook: Hook) -> list[str]:
    """Return which listed hosts do not say that a connection by the name is not answered."""
    texts = []
    for command in redirect.hosts:
        end = look_from_host(session, hook, command)
        if end.code != 0:
            last = "".join(end.output.splitlines()[-1:])
            printed = f"; it printed: {last}" if last else ""
            texts.append(f"{show_command(command)}: {end.result}{printed}")
    return texts


def find_unable(session: Session) -> list[str]:
    """Return why the target must not be opened yet: the name could not be moved to it then."""
    part, cut = find_part(session, HookRole.REDIRECT), find_part(session, HookRole.CUT_OFF)
    if not session.drill.redirects:
        return []
    if shared := find_held_name(session):
        return shared
    # A disaster drill may have had no cut-off from its beginning.
    had_cut = any(record.role is HookRole.CUT_OFF for record in session.drill.hooks)
    if part is None or (had_cut and cut is None):
        return [_GONE]
    redirect, hook = part
    texts = (
        [reason]
        if (
            reason := explain_unsafe_command(hook, *redirect.hosts)
            or explain_servers(redirect.haproxy)
            or explain_unmovable(session, hook)
        )
        else []
    )
    if session.drill.kind is DrillKind.DISASTER:
        allowed = {session.drill.source_cluster, session.drill.target_cluster}
        others = set(list_clusters(ask_name(session.config, redirect))) - allowed
        texts += [f"{safe_text(redirect.name)} leads to cluster {safe_text(c)}" for c in others]
        return texts
    if cut is not None:
        closed, live = _look_cut(session, redirect)
        texts += [] if closed else [f"{live}. Abort the drill, or resume it with --from-fence."]
    return texts


def find_held_name(session: Session) -> list[str]:
    """Return why the target must not be opened because of members that share the name."""
    why = session.peers.explain_no_opening() if session.drill.redirects else ""
    return [f"{why}. {session.peers.advise_stay()}"] if why else []


def describe_redirect(session: Session) -> list[str]:
    """Return what the question before the target is opened says about the name."""
    part = find_part(session, HookRole.REDIRECT)
    if not session.drill.redirects or part is None:
        return []
    hook, sharing = part[1], session.peers.describe_sharing()
    move = describe_records(session, hook.dns)
    transactional = describe_transactional(_list_transactional(session))
    lines = [f"Next is the {describe_hook(hook)}", sharing, move, PRODUCER_IDS, transactional]
    return [line for line in lines if line]


def describe_cut_off(session: Session) -> list[str]:
    """Return what the question before clients are cut off says about transactional producers."""
    if session.drill.options.fence is not Fence.CUT_OFF:
        return []
    fenced = describe_fenced(_list_transactional(session))
    return [fenced] if fenced else []


def _list_transactional(session: Session) -> list[str] | None:
    """Return the transactional producers of the source; None if it does not tell them all."""
    if session.drill.kind is DrillKind.DISASTER:
        return None
    try:
        with closing(session.open_logs()) as logs:
            return list_transactional(session.source, logs.topics())
    except K2kError:  # it only informs: whatever it is, the target may be opened
        return None


def run_redirect(session: Session) -> PhaseResult:
    """Lead the name to the target, and prove that all its addresses do; looks before it acts."""
    part, target = find_part(session, HookRole.REDIRECT), session.drill.target_cluster
    if part is None:
        finding = "Resume the drill with a file that has it."
        return failed(f"not moved: {_GONE}", finding)
    redirect, hook = part
    hand = f"By hand: {by_hand(session, redirect, hook, 'redirect')}"
    answers: list[NameAnswer] = []
    followed = ""

    def look() -> tuple[bool, str]:
        answers[:] = ask_name(session.config, redirect)
        problem = explain_no_cluster(answers, target)
        return not problem, problem

    try:
        # What this host's resolver says of a name proves nothing of records that others ask for.
        is_moved = look()[0] if hook.dns is None else are_moved(session, hook, hook.dns)
    except DnsError as error:
        other = [f"{OTHER_SERVER}."] if may_be_lost(error) else []
        return failed(str(error), *other, hand)
    if is_moved:
        what = "the name leads" if hook.dns is None else "its records lead"
        mark_done(session, hook, f"not run: {what} to the target")
    else:
        turn = _await_turn(session, hook)
        if turn.turn is Turn.HOLD:
            by_person = [hand] if turn.is_final else []
            return failed(f"not moved: {turn.why}", session.peers.advise_stay(), *by_person)
        if turn.turn is Turn.FOLLOW:
            followed = f"not run: {turn.why}"
            if problem := explain_unmoved(session, hook):
                return failed(f"{problem}, although {turn.why}", hand)
        elif held := _move(session, redirect, hook, hand):
            return held
    await_caches(session, hook)
    if not answers or explain_no_cluster(answers, target):
        hint = hand if hook.dns is None else _RESOLVES_OTHERWISE
        session.wait(DrillPhase.REDIRECT, look, hint=f"{hint}.")
    if followed:
        mark_done(session, hook, followed)
    if held := _ask_about_old_addresses(session, redirect, answers):
        return held
    name = safe_text(redirect.name)
    return PhaseResult(
        f"{name} leads to the target: all of its {len(answers):,} addresses answer as cluster "
        f"{safe_text(target)}"
    )


def _move(session: Session, redirect: DrillRedirect, hook: Hook, hand: str) -> PhaseResult | None:
    """Run the redirect; return why it has failed, or None."""
    if session.drill.kind is DrillKind.DISASTER:
        _ask_about_hosts(session, redirect, hook)
    if problems := run_part(session, hook):
        return failed(*problems, hand)
    return None


def _ask_about_old_addresses(
    session: Session, redirect: DrillRedirect, answers: Iterable[NameAnswer]
) -> PhaseResult | None:
    """Let a person agree where clients that know the old brokers' addresses may still go there."""
    old = sorted(set(cut_addresses(session.drill)) - {answer.address for answer in answers})
    reached = find_reached(session.config, redirect, old)
    if not reached:
        return None
    still = f"clients still reach {list_names(reached, _NAMED)}, where the source was"
    lines = [
        f"The name leads to the target, but {still}: those that know these addresses may write to "
        "the old cluster, unless they lead to the target now."
    ]
    if session.agree(DrillPhase.REDIRECT, lines):
        return None
    return failed(still, "Close the clients' way to these addresses, then resume the drill.")


def _ask_about_hosts(session: Session, redirect: DrillRedirect, hook: Hook) -> None:
    """Let a person agree to a redirect while a host may still reach the old cluster.

    Raises:
        Refused: nobody has agreed.
    """
    reaching = find_reaching_hosts(session, redirect, hook)
    if find_part(session, HookRole.CUT_OFF) is not None:
        closed, live = _look_cut(session, redirect)
    else:
        answers = ask_name(session.config, redirect)
        closed = session.drill.source_cluster not in list_clusters(answers)
        live = f"{safe_text(redirect.name)} leads to the old cluster"
    reaching += [] if closed else [f"this host: {live}"]
    if not reaching:
        return
    lines = [
        "The old cluster is lost for the pipeline, but may still be reached from hosts, where "
        "clients would write to it after the redirect:",
        *(f"  {text}" for text in reaching),
    ]
    if not session.agree(DrillPhase.REDIRECT, lines):
        raise session.not_confirmed(str(DrillPhase.REDIRECT))
