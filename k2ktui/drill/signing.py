"""Signs the report of a drill: at its end by the process that acts, or later by a command."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from time import time

import cryptography

from k2ktui.config.model import PipelineConfig
from k2ktui.drill.authorship import find_doubt, read_owners
from k2ktui.drill.evidence.directory import find_signed, why_not_writable, write_signed
from k2ktui.drill.evidence.document import Place, Signed, write_document
from k2ktui.drill.evidence.keys import SigningKey, read_signing_key
from k2ktui.drill.facts import GroupReads
from k2ktui.drill.files import split_files
from k2ktui.drill.ownership import Actor
from k2ktui.drill.report import UNSIGNED, verify_report
from k2ktui.drill.session import Session, Signing, finish_drill
from k2ktui.drill.store import DrillStore
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillStatus
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.kafka.clients import target_cluster
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.plans import whoami
from k2ktui.text import safe_message, safe_text
from k2ktui.version import __version__

log = logging.getLogger(__name__)

_DIRECTORY = "evidence"
_UNCHANGED = "Nothing was signed."
_WITHOUT = "Or leave drill.sign out of the pipeline's file: reports are not signed then."


def evidence_directory(config: PipelineConfig, files: Iterable[str]) -> Path | None:
    """Return the directory of a pipeline's signed reports; None if its file names no key."""
    sign = config.drill.sign
    if sign is None:
        return None
    return Path(sign.directory or Path(split_files(list(files))[0]).absolute().parent / _DIRECTORY)


def require_signing(actor: Actor, kind: DrillKind) -> Signing | None:
    """Return how the report of a drill is signed that this process begins; None if it is not.

    A drill without the source begins also if its report cannot be signed: a failover is not delayed
    for evidence, which can be signed later.

    Raises:
        ConfigError: it could not be signed.
    """
    signing = prepare_signing(actor, has_begun=True)
    if signing is None or isinstance(signing.key, SigningKey) or kind is DrillKind.DISASTER:
        return signing
    raise ConfigError(
        f"the report of the drill could not be signed: {signing.key.message}",
        unchanged="No drill was begun.",
        hint=f"{signing.key.hint} {_WITHOUT}".lstrip(),
    )


def prepare_signing(actor: Actor, *, has_begun: bool = False) -> Signing | None:
    """Return how the report of a drill is signed at its end, or why it cannot be.

    Args:
        actor: who acts.
        has_begun: whether this process begins the drill.

    Returns:
        None if the pipeline's file does not ask for it.
    """
    config = actor.flow.config
    directory = evidence_directory(config, actor.files)
    if directory is None:
        return None
    try:
        key = _read_key(config, directory, actor.ask_secret)
    except ConfigError as error:
        reason = error
    except (OSError, ValueError) as error:  # of paths or passphrases that nobody has foreseen
        reason = ConfigError(f"the key or its directory cannot be used: {safe_message(error)}")
    else:
        return Signing(directory, key, has_begun=has_begun)
    log.warning("drills of %s cannot be signed: %s", config.name, reason.message)
    return Signing(directory, reason)


def _read_key(
    config: PipelineConfig, directory: Path, ask: Callable[[str], str] | None
) -> SigningKey:
    """Return the key of a pipeline's file, once its directory can be written.

    Raises:
        ConfigError: one of them cannot be used.
    """
    sign = config.drill.sign
    assert sign is not None
    passphrase = None if sign.passphrase_file is None else Path(sign.passphrase_file)
    key = read_signing_key(Path(sign.key), passphrase, ask)
    if why := why_not_writable(directory):
        raise ConfigError(
            f"the directory {safe_text(directory)} of signed reports {why}",
            hint="Name another one in drill.sign.directory.",
        )
    return key


def end_drill(session: Session, status: DrillStatus) -> None:
    """End a drill and sign its report; that it could not be signed is a finding."""
    finish_drill(session, status)
    if session.signing is None:
        return
    try:
        path = _sign_own(session, session.signing)
    except (K2kError, OSError) as error:
        text = _explain(session.drill, error)
        log.warning("drill %s: %s", session.drill.id, text)
        _record_finding(session, status, text)
        return
    log.info("drill %s: signed report in %s", session.drill.id, path)


def _record_finding(session: Session, status: DrillStatus, text: str) -> None:
    """Add a finding to a drill that has ended, unless it can no longer be written."""
    ended = session.drill
    session.change_drill(lambda drill: _with_finding(drill, text))
    try:
        finish_drill(session, status)
    except K2kError as error:
        log.warning("drill %s: this finding could not be written: %s", ended.id, error.message)
        # As its last event has it: with an unwritten finding, its report would look changed.
        session.change_drill(lambda _: ended)


def _explain(drill: Drill, error: K2kError | OSError) -> str:
    """Return why a report was not signed, and how to sign it unless that is refused as well."""
    why = error.message if isinstance(error, K2kError) else error.strerror
    text = f"{UNSIGNED}: {why}"
    if isinstance(error, Refused):
        return text
    return f"{text}; correct it, and sign: k2ktui evidence sign {safe_text(drill.id)} -f FILE"


def explain_unsigned(session: Session) -> list[str]:
    """Return why the report of a drill cannot be signed when it ends; nothing if it can."""
    signing = session.signing
    if signing is None or isinstance(signing.key, SigningKey):
        return []
    return [f"the report cannot be signed: {signing.key.message}"]


def _sign_own(session: Session, signing: Signing) -> Path:
    """Sign the report of the drill that this process has ended.

    What it has begun, it signs as it has it in memory, whatever others have written meanwhile.

    Raises:
        K2kError, OSError: it cannot be signed.
    """
    drill = session.drill
    if not isinstance(signing.key, SigningKey):
        raise signing.key
    if not signing.has_begun:
        _require_record(session.store, drill)
    signed = Signed.BY_DRILL if signing.has_begun else Signed.RESUMED
    return _sign(signing.directory, signing.key, drill, session.reads, signed)


def _with_finding(drill: Drill, text: str) -> Drill:
    """Return a drill with a finding about its report, which stops nothing.

    Of a rehearsal it is no blocker: it does not make a failover unsafe.
    """
    if drill.status is DrillStatus.ABORTED:
        return replace(drill, blockers=(*drill.blockers, text))
    record = drill.record(DrillPhase.REPORT)
    return drill.with_phase(
        # Findings of checks are the last ones.
        replace(record, live=f"{record.live}; not signed", findings=(text, *record.findings))
    )


def sign_later(
    flow: Flow, files: Iterable[str], drill_id: str, ask: Callable[[str], str] | None
) -> Path:
    """Sign the report of a drill that has ended, and return the path of the signed report.

    Raises:
        ConfigError: there is no such drill, or its report cannot be signed.
        Refused: it has not ended, was signed before, or its record is not proven to be the drill's.
        K2kError: as for ``DrillStore.read``.
    """
    config = flow.config
    directory = evidence_directory(config, files)
    if directory is None:
        raise ConfigError(
            "the pipeline's file names no key",
            unchanged=_UNCHANGED,
            hint="Name one in drill.sign.key: see docs/evidence.md.",
        )
    name = safe_text(drill_id)
    if (path := find_signed(directory, drill_id)) is not None:
        raise Refused(
            f"the report of drill {name} was signed before: {safe_text(path)}", unchanged=_UNCHANGED
        )
    target = target_cluster(config)
    store = DrillStore(config, target)
    try:
        # The owners first: what is read afterwards was written before, or by one of them.
        owners = read_owners(config, target, drill_id)
        drill = store.read_settled(drill_id)
        if not drill.is_over:
            raise Refused(
                f"drill {name} has not ended",
                unchanged=_UNCHANGED,
                hint=f"It is signed when it ends: k2ktui drill {drill.next_verb} {name} -f FILE",
            )
        if doubt := find_doubt(config, target, store, drill_id, owners):
            raise Refused(
                f"it is not proven that drill {name} wrote its record: {doubt}",
                unchanged=_UNCHANGED,
                hint="A record that others may have written is not signed.",
            )
        _require_record(store, drill)
    finally:
        store.close()
    try:
        key = _read_key(config, directory, ask)
        return _sign(directory, key, drill, None, Signed.LATER)
    except ConfigError as error:
        raise ConfigError(error.message, unchanged=_UNCHANGED, hint=error.hint) from error
    except OSError as error:
        raise ConfigError(
            f"the signed report cannot be written: {error.strerror}", unchanged=_UNCHANGED
        ) from error


def _require_record(store: DrillStore, drill: Drill) -> None:
    """Require that processes of the drill wrote all of its record, and as its journal has it.

    Raises:
        Refused: they did not.
        K2kError: as for ``DrillStore.read``.
    """
    if drill.doubt:
        raise Refused(
            f"it is not proven that a drill wrote its record: {safe_message(drill.doubt)}",
            unchanged=_UNCHANGED,
        )
    if problems := verify_report(drill, store.read_digests(drill)):
        raise Refused(
            f"the record of drill {safe_text(drill.id)} does not fit to its journal: "
            f"{safe_message('; '.join(problems))}",
            unchanged=_UNCHANGED,
        )


def _sign(
    directory: Path,
    key: SigningKey,
    drill: Drill,
    reads: Iterable[GroupReads] | None,
    signed: Signed,
) -> Path:
    def write(place: Place) -> bytes:
        return write_document(
            drill,
            reads,
            place,
            key=key.fingerprint,
            signed_ms=int(time() * 1000),
            signed_by=whoami(),
            signed=signed,
            versions={
                "k2ktui": __version__,
                "python": platform.python_version(),
                "cryptography": cryptography.__version__,
            },
        )

    return write_signed(directory, key, drill.pipeline, drill.id, write)
