"""Hooks of a drill: commands of the pipeline's file, run before or after a phase, and undone.

What is run is only in the file, which nobody but this user and root may write. The drill's record
says what became of each hook: that it begins is written before it does. A hook whose process was
killed may have run or not, so a person is asked; no hook is repeated without a confirmation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep, time

from k2ktui.drill.client_name import find_reached, split_name
from k2ktui.drill.dns_server import move_records
from k2ktui.drill.files import split_files
from k2ktui.drill.haproxy import run_commands
from k2ktui.drill.hook_process import (
    CommandEnd,
    explain_unsafe_command,
    inherited_environment,
    run_command,
)
from k2ktui.drill.operator import agree_question
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hook_steps import (
    begin_hook,
    find_hook,
    find_role,
    hooks_of,
    hooks_to_undo,
    put_hook,
    with_file_hooks,
)
from k2ktui.engine.drill.hooks import (
    AFTER,
    BEFORE,
    Hook,
    HookRecord,
    HookRole,
    HookStatus,
    describe_hook,
    digest_hooks,
    show_command,
)
from k2ktui.engine.drill.model import Drill, PhaseStatus
from k2ktui.engine.drill.redirects import cut_addresses
from k2ktui.errors import K2kError, Refused
from k2ktui.private_files import why_others_may_write, write_private
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.runtime.scratch import Scratch, sweep
from k2ktui.secret_values import hide_secrets
from k2ktui.sync.moves.plans import whoami
from k2ktui.text import counted, duration, list_names, safe_message, safe_text

log = logging.getLogger(__name__)

_LOOK_AGAIN_S, _NAMED = 0.5, 5
_STAYS = "The drill stays where it is."
_PREFIX = "K2KTUI_DRILL_"
# Bytes of a variable; the kernel takes 128 KiB with its name.
_LONGEST = 120_000
_TOPICS_DIRECTORY = "k2ktui-hook-"
# What is done, and what undoes it.
_ACTIONS = {
    HookRole.HOOK: ("run", "abort"),
    HookRole.CUT_OFF: ("cut", "restore"),
    HookRole.REDIRECT: ("redirect", ""),
}
_UNKNOWN = (
    "The process that ran it has ended, so it is not known whether the {name} has ended: "
    "{purpose}. It ran: {command}."
)
_REPEATS = "Hooks must be repeatable. To run it again, type the drill's id."


def explain_unsafe_files(files: Sequence[str]) -> str:
    """Return why hooks of these files are not run, "" if they may be.

    Whoever may write such a file chooses what the operator runs.
    """
    if not files:
        return "it is not known which file they are of"
    for file in split_files(files):
        reason = why_others_may_write(Path(file))
        if reason:
            return f"the pipeline file {safe_text(file)} is not safe: {reason}"
    return ""


def require_safe_files(hooks: Sequence[Hook], files: Sequence[str], unchanged: str) -> None:
    """Refuse hooks of files that somebody else may write.

    Raises:
        Refused: with the file and the reason.
    """
    reason = explain_unsafe_files(files) if hooks else ""
    if reason:
        raise Refused(
            f"the hooks of the drill are not run: {reason}",
            unchanged=unchanged,
            hint="Let the file and its folder belong to you or root, with mode 600 or 644 and 700 "
            "or 755.",
        )


def list_hooks(session: Session) -> None:
    """Record which hooks the file has, when a drill begins."""
    hooks = list_own_hooks(session)
    if not hooks:
        return
    session.change_drill(lambda drill: with_file_hooks(drill, hooks))
    rehearses = session.drill.kind is DrillKind.REHEARSE
    runs = ", none of which a rehearsal runs" if rehearses else ""
    session.write(f"{_count(hooks)}{runs}", phase="hooks")


def _count(hooks: Sequence[Hook]) -> str:
    digest = digest_hooks(hooks)
    return f"{counted(len(hooks), 'hook')} of the file" + (f", sha256 {digest}" if digest else "")


def take_hooks(session: Session) -> None:
    """Take the hooks of this host's file; ask a person if they differ from those of the drill.

    Raises:
        Refused: the file is not safe, or no person has agreed.
    """
    drill, hooks = session.drill, list_own_hooks(session)
    if drill.kind is DrillKind.REHEARSE:
        return
    require_safe_files(hooks, session.files, _STAYS)
    digest = digest_hooks(hooks)
    if digest == drill.hooks_digest:
        session.change_drill(lambda now: with_file_hooks(now, hooks))
        return
    lines = _list_differences(drill, hooks)
    if not session.operator.ask(agree_question(drill, lines)):
        raise Refused(
            "\n".join(["a person must agree to the hooks of this file. " + lines[0], *lines[1:]]),
            unchanged=_STAYS,
            hint="Give the file with which the drill was begun, or repeat the command at a "
            "terminal.",
        )
    session.change_drill(lambda now: with_file_hooks(now, hooks))
    before = f"sha256 {drill.hooks_digest}" if drill.hooks_digest else "none"
    session.write(f"{_count(hooks)}, agreed to; before: {before}", phase="hooks")


def _list_differences(drill: Drill, hooks: Sequence[Hook]) -> list[str]:
    """Return what a person has to see who agrees to other hooks; safe to print."""
    known, digests = {record.digest for record in drill.hooks}, {hook.digest for hook in hooks}
    lines = [
        "The hooks of this host's file are not those that the drill was begun with, or that were "
        "agreed to last. From now on, these count:"
    ]
    lines += [
        f"  {'as before' if hook.digest in known else 'new'}: {describe_hook(hook)}"
        for hook in hooks
    ]
    for record in drill.hooks:
        if record.digest in digests:
            continue
        ran = "an abort will not undo it" if record.may_have_run else "it has not run"
        shown = f"{record.name}, {record.purpose}: {record.command}"
        lines.append(f"  not in this file: {safe_message(shown)}; {ran}")
    return lines if len(lines) > 1 else [*lines, "  none"]


# Run


def run_hooks(session: Session, phase: DrillPhase, *, after: bool) -> PhaseResult | None:
    """Run the hooks before or after a phase; return the result of one that holds the phase.

    Raises:
        Refused: a hook was not confirmed.
    """
    if session.drill.kind is DrillKind.REHEARSE:
        return None
    for hook in hooks_of(list_own_hooks(session), phase, after=after):
        record = find_hook(session.drill, hook.digest)
        if record is None or record.status is HookStatus.DONE:
            continue
        if session.drill.record(phase).status is not PhaseStatus.RUNNING:
            session.begin(phase)
        problem = _run_hook(session, hook, record)
        if problem:
            return failed(problem, ": ".join([problem, *_last_line(session, hook)]))
    return None


def _last_line(session: Session, hook: Hook) -> list[str]:
    """Return the last line that the last attempt of a hook has printed, if there is one."""
    record = find_hook(session.drill, hook.digest)
    return [] if record is None else record.output.splitlines()[-1:]


def _run_hook(session: Session, hook: Hook, record: HookRecord) -> str:
    """Run a hook once it is confirmed; return why it holds its phase, "" if it does not."""
    phase = hook.phase
    if _is_done_already(session, record):
        record = replace(
            record,
            status=HookStatus.DONE,
            result=f"not run again: {safe_text(whoami())} says that its work is done",
        )
        _write(session, record, f"{record.name}: {record.result}")
        return ""
    if record.status is HookStatus.RUNNING:
        if not session.agree(phase, [f"{describe_hook(hook)}", _REPEATS]):
            raise session.not_confirmed(f"running the {record.name} again")
    else:
        before = f" It ran before: {record.result}." if record.result else ""
        session.confirm(phase, f"The {describe_hook(hook)}{before}", step=hook.step)
    return _run_once(session, hook, record)


def run_part(session: Session, hook: Hook, addresses: Sequence[str] = ()) -> list[str]:
    """Run the cut-off or the redirect, which its phase has confirmed.

    Returns why it failed, and the last line that it printed; nothing if it did not. It is run again
    whenever its phase is: what it has done is looked at, not remembered.

    Args:
        session: the drill.
        hook: what is run.
        addresses: where clients reach the source now; those of an earlier attempt are kept.

    Raises:
        Refused: it is not under this user's control.
    """
    require_safe_files([hook], session.files, _STAYS)
    if reason := explain_unsafe_command(hook):
        return [reason]
    record = find_hook(session.drill, hook.digest)
    if record is None:
        return [f"the {hook.role} of this host's file is not one that the drill has"]
    earlier = cut_addresses(session.drill) if hook.role is HookRole.CUT_OFF else ()
    known = tuple(dict.fromkeys((*earlier, *addresses)))
    problem = _run_once(session, hook, replace(record, addresses=known))
    return [problem, *_last_line(session, hook)] if problem else []


def join_part(session: Session, hook: Hook, addresses: Sequence[str] = ()) -> None:
    """Record that another member runs the cut-off, for all that share the name.

    Each of them can undo it then, also if the member that runs it is lost.

    Args:
        session: the drill.
        hook: the cut-off.
        addresses: where clients reached the source before, once the other member knows.
    """
    record = find_hook(session.drill, hook.digest)
    if record is None:
        return
    known = tuple(dict.fromkeys((*record.addresses, *addresses)))
    if record.status is not HookStatus.RUNNING:
        record = begin_hook(session.drill, record, _now())
    text = f"{record.name}: run by another pipeline that shares the name"
    _write(session, replace(record, addresses=known), text)


def mark_done(session: Session, hook: Hook, result: str) -> None:
    """Record that the work of a cut-off or redirect is done, as a look has shown."""
    record = find_hook(session.drill, hook.digest)
    if record is not None and record.status is not HookStatus.DONE:
        done = replace(record, status=HookStatus.DONE, ended_ms=_now(), result=result)
        _write(session, done, f"{record.name}: {result}")


def list_own_hooks(session: Session) -> Sequence[Hook]:
    """Return the hooks of this host's file that the drill may run."""
    drill = session.drill
    hooks = session.config.drill.list_hooks(drill.kind, drill.topics)
    return [hook for hook in hooks if hook.role is HookRole.HOOK or drill.redirects]


def _run_once(session: Session, hook: Hook, record: HookRecord) -> str:
    """Run a hook, and record it; return why it failed, "" if it did not."""
    record = begin_hook(session.drill, record, _now())
    attempt = f"attempt {record.attempts}"
    _write(session, record, f"about to run the {record.name}, {attempt}: {record.command}")
    failpoint("drill-hook-begun")
    end = _run(session, hook, record)
    failpoint("drill-hook-ended")
    done = end.code == 0
    record = replace(
        record,
        status=HookStatus.DONE if done else HookStatus.FAILED,
        ended_ms=_now(),
        result=end.result,
        output=end.output,
    )
    took = duration(end.seconds, tenths=True)
    _write(session, record, f"{record.name}, {attempt}: {end.result}, after {took}")
    return "" if done else f"{record.name} has failed: {end.result}"


def _is_done_already(session: Session, record: HookRecord) -> bool:
    """Ask a person whether a hook has done its work that failed, or whose end is not known."""
    name, purpose, command = record.name, safe_message(record.purpose), safe_message(record.command)
    if record.status is HookStatus.RUNNING:
        first = _UNKNOWN.format(name=name, purpose=purpose, command=command)
    elif record.status is HookStatus.FAILED:
        first = f"The {name} has failed ({safe_message(record.result)}): {purpose}."
    else:
        return False
    question = (
        "Look whether its work is done. If it is, type the drill's id: it is then not run again. "
        "If it is not, or you do not know, leave this: you are asked whether to run it again."
    )
    return session.agree(record.phase, [first, question])


def _run(session: Session, hook: Hook, record: HookRecord, *, undoes: bool = False) -> CommandEnd:
    """Run a command of a hook, and show how long it runs; it is killed if the drill stops here."""
    phase, command = hook.phase, hook.abort if undoes else hook.command
    action = _ACTIONS[hook.role][undoes]
    name = f"abort of the {record.name}" if undoes else record.name

    def tick(seconds: float) -> None:
        if not undoes:  # an abort shows no phase
            session.show(phase, f"{name}: {duration(seconds)} of {hook.timeout_s:g} s")

    log.info("drill %s: %s: about to run %s", session.drill.id, name, record.command)
    try:
        if hook.dns is not None:
            end = move_records(hook.dns, hook.timeout_s, tick, session.peers.idle)
        elif hook.socket:
            end = run_commands(hook.socket, command, hook.timeout_s, tick, session.peers.idle)
        else:
            end = _run_program(session, hook, record.attempts, command, action, tick)
    except BaseException as error:
        if not undoes:  # its end is known; whoever resumes the drill is asked
            why = error.message if isinstance(error, K2kError) else type(error).__name__
            killed = replace(
                record, status=HookStatus.FAILED, ended_ms=_now(), result=f"killed: {why}"
            )
            session.change_drill(lambda drill: put_hook(drill, killed))
        raise
    log.info("drill %s: %s: %s", session.drill.id, name, end.result)
    session.count_waiting(phase, end.seconds)
    return end


def look_from_host(session: Session, hook: Hook, command: Sequence[str]) -> CommandEnd:
    """Run a command of the file that looks from another host; nothing of it is recorded."""

    def tick(seconds: float) -> None:
        session.show(hook.phase, f"{show_command(command)}: {duration(seconds)}")

    return _run_program(session, hook, 1, command, "look", tick)


def _run_program(
    session: Session,
    hook: Hook,
    attempt: int,
    command: Sequence[str],
    action: str,
    tick: Callable[[float], None],
) -> CommandEnd:
    directory = Path(split_files(session.files)[0]).absolute().parent
    with _topics_file(session.drill.topics) as topics_file:
        environment = hook_environment(session, hook, attempt, action, topics_file)
        idle = session.peers.idle
        return run_command(command, environment, directory, hook.timeout_s, tick, idle)


@contextmanager
def _topics_file(topics: Sequence[str]) -> Iterator[Path | None]:
    """Write all topics of a drill to a private file, one a line, and remove it afterwards.

    Raises:
        Refused: it cannot be written; a hook that knows only some topics does harm.
    """
    if not topics:
        yield None
        return
    sweep(_TOPICS_DIRECTORY)  # of processes that were killed
    try:
        scratch = Scratch(_TOPICS_DIRECTORY)
    except OSError as error:
        raise _no_topics_file(error) from error
    try:
        path = scratch.path / "topics"
        try:
            write_private(path, "".join(f"{safe_text(topic)}\n" for topic in topics).encode())
        except OSError as error:
            raise _no_topics_file(error) from error
        yield path
    finally:
        scratch.remove()


def _no_topics_file(error: OSError) -> Refused:
    return Refused(
        "the file with the drill's topics, which a hook gets, cannot be written: "
        f"{safe_text(error.strerror or error)}",
        unchanged=f"The hook was not run. {_STAYS}",
        hint="Make room in the temporary directory, or name another one with TMPDIR, and resume.",
    )


def hook_environment(
    session: Session, hook: Hook, attempt: int, action: str, topics_file: Path | None
) -> dict[str, str]:
    """Return the whole environment of a hook: a few variables of this process, and facts.

    Args:
        session: the drill.
        hook: the hook.
        attempt: its attempt, from 1.
        action: ``run``, or ``abort`` for the command that undoes it; ``cut``, ``restore``,
            ``redirect`` and ``look`` for those of ``drill.redirect``.
        topics_file: the file with the drill's topics; None for the whole pipeline.

    Raises:
        Refused: a fact is too long for a variable; a part of it would be taken for all.
    """
    drill, config = session.drill, session.config
    facts: dict[str, object] = {
        "ID": drill.id,
        "KIND": drill.kind,
        "PHASE": hook.phase,
        "WHEN": AFTER if hook.after else BEFORE,
        "ACTION": action,
        "ATTEMPT": attempt,
        "PIPELINE": config.name,
        "SOURCE": config.source.bootstrap_servers,
        "TARGET": config.target.bootstrap_servers,
        "SOURCE_CLUSTER": drill.source_cluster,
        "TARGET_CLUSTER": drill.target_cluster,
    }
    if config.drill.redirect is not None:
        facts["NAME"] = config.drill.redirect.name
    if drill.figures.rpo_records is not None:
        facts["RPO_RECORDS"] = drill.figures.rpo_records
    # Names are others' input, and a variable must not hold NUL.
    shown = {f"{_PREFIX}{name}": safe_text(hide_secrets(str(fact))) for name, fact in facts.items()}
    if topics_file is not None:
        shown |= topic_variables(drill.topics, topics_file)
    require_whole(shown)
    return inherited_environment() | shown


def topic_variables(topics: Sequence[str], file: Path) -> dict[str, str]:
    """Return the variables about the topics of a drill, which are all in a file."""
    names = ",".join(safe_text(topic) for topic in topics)
    # No topic has this name: a hook that does not read the file fails, and takes no part for all.
    shown = names if _fits(names) else f"@{file}"
    return {f"{_PREFIX}TOPICS": shown, f"{_PREFIX}TOPICS_FILE": str(file)}


def require_whole(variables: Mapping[str, str]) -> None:
    """Require that each variable fits: a part of a value would be taken for all of it.

    Raises:
        Refused: one does not.
    """
    for name, text in variables.items():
        if not _fits(text):
            raise Refused(
                f"{name} is too long for an environment variable: {len(text.encode()):,} bytes, at "
                f"most {_LONGEST:,}",
                unchanged=f"The hook was not run. {_STAYS}",
                hint="Shorten it in the pipeline's file.",
            )


def _fits(text: str) -> bool:
    return len(text.encode()) <= _LONGEST


def _write(session: Session, record: HookRecord, text: str) -> None:
    session.change_drill(lambda drill: put_hook(drill, record))
    session.write(text, phase=str(record.phase))


def _now() -> int:
    return int(time() * 1000)


# Undo


def take_hooks_to_undo(session: Session) -> None:
    """Before an abort: as :func:`take_hooks`, if a hook may have run."""
    if hooks_to_undo(session.drill):
        take_hooks(session)


def list_kept_hooks(session: Session) -> list[str]:
    """Return what an operator has to undo by hand, also what an earlier attempt has left."""
    return [
        f"{record.name}, {record.purpose}: undo by hand what it did, as no abort command could"
        + (f": {record.abort}" if record.abort else "")
        for record in session.drill.hooks
        if record.status is HookStatus.KEPT
    ]


def undo_hook(session: Session, record: HookRecord) -> list[str]:
    """Run the abort command of a hook once it is confirmed; return what stays as it is.

    It stays to be undone if its command fails, so that the abort can be repeated. A cut-off for
    several members of a site drill is undone by the first one that comes to it.

    Raises:
        Refused: it was not confirmed.
    """
    if record.role is not HookRole.CUT_OFF or not session.peers.describe_sharing():
        return _undo_hook(session, record)
    with session.peers.fencing():
        said = _explain_no_restore(session, record)
        if not said:
            return _undo_hook(session, record)
        undone = replace(record, status=HookStatus.UNDONE, undo_result=said)
        _write(session, undone, f"undone: {record.name}: {said}")
        return []


def _explain_no_restore(session: Session, record: HookRecord) -> str:
    """Return why a cut-off of a shared name has not to be undone any more; "" if it has."""
    if kept := session.peers.explain_kept_cut():
        return f"not run, so clients stay cut off: {kept}"
    redirect = session.config.drill.redirect
    if redirect is None or session.drill.kind is DrillKind.DISASTER:
        return ""
    addresses = {*split_name(redirect.name), *record.addresses}
    is_open = addresses == set(find_reached(session.config, redirect, addresses))
    return "not run: clients reach the source again" if is_open else ""


def _undo_hook(session: Session, record: HookRecord) -> list[str]:
    hooks = {hook.digest: hook for hook in list_own_hooks(session)}
    hook = hooks.get(record.digest)
    if hook is None and record.role is not HookRole.HOOK:  # its section was changed meanwhile
        hook = find_role(hooks.values(), record.role)
    if hook is None or not hook.abort:
        why = "this host's file does not have it" if hook is None else "it has no abort command"
        kept = replace(record, status=HookStatus.KEPT)
        _write(session, kept, f"not undone: {record.name}: {why}")
        return []  # named when the abort ends
    undone = replace(record, status=HookStatus.UNDONE)
    if record.status is HookStatus.UNDOING:
        first = f"It is not known whether the abort of the {record.name} has ended."
        if session.agree(record.phase, [first, "If its work is done, type the drill's id."]):
            said = f"{safe_text(whoami())} says that its work is done"
            _write(session, replace(undone, undo_result=said), f"undone: {record.name}: {said}")
            return []
        if not session.agree(record.phase, [describe_hook(hook), _REPEATS]):
            raise session.not_confirmed(f"the abort of the {record.name}")
    else:
        ran = f" It ran: {record.result or 'its end is not known'}."
        effect = f"Undoes the {describe_hook(hook)}{ran}"
        session.confirm(record.phase, effect, step=record.step)
    reason = explain_unsafe_command(hook) if record.role is not HookRole.HOOK else ""
    if reason:
        return [f"{record.name}: {reason}"]
    begun = replace(record, status=HookStatus.UNDOING, undo_result="", undo_output="")
    _write(session, begun, f"about to undo the {record.name}: {hook.shown_abort}")
    failpoint("drill-hook-undoing")
    end = _run(session, hook, record, undoes=True)
    failpoint("drill-hook-undone")
    done = end.code == 0
    unproven = _explain_not_restored(session, hook, record) if done else ""
    # A source that has died meanwhile never answers: a person may end the abort.
    if unproven and session.agree(record.phase, [f"{unproven}; the restore itself has ended."]):
        unproven = ""
    # Failed: it is undone again when the abort is repeated.
    result = f"{end.result}, but {unproven}" if unproven else end.result
    done = done and not unproven
    after = undone if done else replace(record, status=HookStatus.FAILED)
    after = replace(after, undo_result=result, undo_output=end.output)
    _write(session, after, f"abort of the {record.name}: {result}")
    return [] if done else [f"the abort of the {record.name} has failed: {result}"]


def _explain_not_restored(session: Session, hook: Hook, record: HookRecord) -> str:
    """Return why clients cannot reach the source again that were cut off; "" if they can.

    A source that is lost answers nobody, also once the way to it is open.
    """
    redirect = session.config.drill.redirect
    if hook.role is not HookRole.CUT_OFF or redirect is None:
        return ""
    if session.drill.kind is DrillKind.DISASTER:
        return ""
    until = monotonic() + hook.timeout_s
    addresses = dict.fromkeys((*split_name(redirect.name), *record.addresses))
    while missing := set(addresses) - set(find_reached(session.config, redirect, addresses)):
        if monotonic() > until:
            return f"nothing answers at {list_names(sorted(missing), _NAMED)}"
        with session.peers.idle():
            sleep(_LOOK_AGAIN_S)
    return ""
