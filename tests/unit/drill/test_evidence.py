"""Signed reports: keys that can be used, files that are read, the page about them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa

from k2ktui.drill.evidence import directory
from k2ktui.drill.evidence.directory import read_signed, signature_path, why_not_writable
from k2ktui.drill.evidence.document import FORMAT, LARGEST_BYTES
from k2ktui.drill.evidence.keys import read_public_key, read_signing_key
from k2ktui.drill.evidence.summary import choose, make_summary
from k2ktui.drill.evidence.verification import verify_files
from k2ktui.drill.report_html import render_html
from k2ktui.engine.drill.model import DrillFigures
from k2ktui.errors import ConfigError, Refused, TimedOut
from k2ktui.runtime.paths import locked
from tests.support.drill.made_drills import rehearsed, switched_over
from tests.support.drill.pages import HOSTILE, Page
from tests.support.drill.signed import Signings, make_key, write_key


@pytest.fixture
def files(tmp_path: Path) -> Signings:
    return Signings(tmp_path)


# Keys.


def openssl(*arguments: str | Path) -> None:
    program = shutil.which("openssl")
    assert program is not None
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, timeout=60)


def test_keys_of_openssl_are_read_and_openssl_verifies(tmp_path: Path) -> None:
    """With the commands of docs/evidence.md."""
    private, public = tmp_path / "sign.pem", tmp_path / "sign.pub"
    openssl("genpkey", "-algorithm", "ed25519", "-out", private)
    openssl("pkey", "-in", private, "-pubout", "-out", public)
    private.chmod(0o600)
    key = read_signing_key(private, None, None)
    assert read_public_key(public).fingerprint == key.fingerprint
    files = Signings(tmp_path, 1)
    path = files.sign(replace(rehearsed(1), id="next"), key)
    check = ("pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin")
    openssl(*check, "-in", path, "-sigfile", signature_path(path))
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(subprocess.CalledProcessError):
        openssl(*check, "-in", path, "-sigfile", signature_path(path))


def test_a_passphrase_is_asked_for_or_in_a_file(tmp_path: Path) -> None:
    private = tmp_path / "sign.pem"
    openssl("genpkey", "-algorithm", "ed25519", "-aes-256-cbc", "-pass", "pass:two words",
            "-out", private)  # fmt: skip
    private.chmod(0o600)
    file = tmp_path / "passphrase"
    file.write_text("two words\n")
    file.chmod(0o600)
    asked: list[str] = []

    def ask(name: str) -> str:
        asked.append(name)
        return "two words"

    fingerprint = read_signing_key(private, None, ask).fingerprint
    assert asked == [str(private)]
    assert read_signing_key(private, file, None).fingerprint == fingerprint
    for passphrase in ("wrong", ""):
        with pytest.raises(ConfigError, match="passphrase") as caught:
            read_signing_key(private, None, lambda _, typed=passphrase: typed)  # type: ignore[misc]
        assert "two words" not in str(caught.value)
    with pytest.raises(ConfigError, match="nobody can be asked"):
        read_signing_key(private, None, None)
    with pytest.raises(ConfigError, match=r"has no passphrase, and drill\.sign.passphraseFile"):
        read_signing_key(write_key(tmp_path / "plain.pem"), file, None)
    file.chmod(0o640)
    with pytest.raises(ConfigError, match=r"passphrase .* can be read by others"):
        read_signing_key(private, file, None)


Other = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed448.Ed448PrivateKey
OTHERS: dict[str, Callable[[], Other]] = {
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "EC": lambda: ec.generate_private_key(ec.SECP256R1()),
    "Ed448": ed448.Ed448PrivateKey.generate,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_types_of_keys_are_refused(kind: str, tmp_path: Path) -> None:
    private, public = tmp_path / "sign.pem", tmp_path / "sign.pub"
    made = OTHERS[kind]()
    pem = serialization.Encoding.PEM
    private.write_bytes(
        made.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    private.chmod(0o600)
    public.write_bytes(
        made.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(ConfigError, match=f"is of type {kind}, not Ed25519"):
        read_signing_key(private, None, None)
    with pytest.raises(ConfigError, match=f"is of type {kind}, not Ed25519"):
        read_public_key(public)


def test_keys_that_others_can_read_or_write_are_refused(tmp_path: Path) -> None:
    private = write_key(tmp_path / "sign.pem")
    read = "read by others"
    for mode, reason in ((0o604, read), (0o640, read), (0o602, "everybody")):
        private.chmod(mode)
        with pytest.raises(ConfigError, match=reason):
            read_signing_key(private, None, None)
    private.chmod(0o600)
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    moved = private.rename(open_folder / private.name)
    with pytest.raises(ConfigError, match="its folder can be written by everybody"):
        read_signing_key(moved, None, None)


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    private = tmp_path / "sign.pem"
    damaged = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"
    for content in (b"", b"nothing", damaged):
        private.write_bytes(content)
        private.chmod(0o600)
        with pytest.raises(ConfigError, match="no private key in PEM"):
            read_signing_key(private, None, None)
    with pytest.raises(ConfigError, match="is no public key in PEM"):
        (tmp_path / "x.pub").write_bytes(b"nothing")
        read_public_key(tmp_path / "x.pub")


# The directory.


def test_each_key_and_pipeline_has_its_own_numbers(files: Signings) -> None:
    other = replace(rehearsed(2), pipeline="orders-2", id="of-another-pipeline")
    files.sign(other)
    files.sign(replace(other, id="another-key"), files.other)
    verified = files.verify(files.key.public, files.other.public)
    assert verified.problems == ()
    numbers = [(one.pipeline, one.place.sequence) for one in verified.evidence]
    assert sorted(numbers) == [
        *(("orders", number) for number in range(1, 6)),
        *(("orders-2", 1), ("orders-2", 1)),
    ]


def test_pipelines_whose_names_are_alike_in_files_have_their_own_numbers(files: Signings) -> None:
    for number, name in enumerate(("a/b", "a_b", "a/b", "a_b")):
        files.sign(replace(rehearsed(4.0 - number), pipeline=name, id=f"alike-{number}"))
    assert files.verify().problems == ()


def test_drills_that_end_at_once_have_numbers_of_their_own(files: Signings) -> None:
    drills = [replace(rehearsed(1), id=f"at-once-{number}") for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(files.sign, drills))
    verified = files.verify()
    assert verified.problems == () and len(verified.evidence) == 5 + 12


def test_a_report_is_never_overwritten(files: Signings) -> None:
    before = {path: path.read_bytes() for path in files.directory.iterdir()}
    with pytest.raises(Refused, match="was signed before"):
        files.sign(files.drills[2])
    planted = files.directory / "orders-000006.next.json"
    planted.write_text("planted")
    with pytest.raises(Refused):
        files.sign(replace(rehearsed(1), id="next"))
    planted.unlink()
    assert {path: path.read_bytes() for path in files.directory.iterdir()} == before


def test_a_signature_without_its_document_does_not_stop_the_next(files: Signings) -> None:
    """A killed process may leave one."""
    left = files.directory / "orders-000006.next.json.sig"
    left.write_bytes(b"half")
    path = files.sign(replace(rehearsed(1), id="next"))
    assert signature_path(path) == left and files.verify().problems == ()


def test_files_are_private_and_a_directory_that_exists_stays_as_it_is(files: Signings) -> None:
    assert {path.stat().st_mode & 0o777 for path in files.directory.glob("*.json*")} == {0o600}
    assert files.directory.stat().st_mode & 0o777 == 0o700
    files.directory.chmod(0o750)
    files.sign(replace(rehearsed(1), id="next"))
    assert files.directory.stat().st_mode & 0o777 == 0o750


def test_the_number_of_a_damaged_newest_report_is_not_given_again(files: Signings) -> None:
    path = files.paths[4]
    path.write_bytes(path.read_bytes()[:-5])
    assert files.sign(replace(rehearsed(1), id="next")).name == "orders-000006.next.json"
    damaged, gap = files.verify().problems
    assert path.name in damaged and "number 5 is missing" in gap


def test_a_report_whose_signature_is_gone_keeps_its_number(files: Signings) -> None:
    signature = signature_path(files.paths[4])
    kept = signature.read_bytes()
    signature.unlink()
    assert files.sign(replace(rehearsed(1), id="next")).name == "orders-000006.next.json"
    signature.write_bytes(kept)
    assert files.verify().problems == (), "it is continued as it was"


def test_what_cannot_be_read_stops_a_signing(
    files: Signings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, _: int) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(directory, "read_bounded", fail)
        with pytest.raises(PermissionError):
            files.sign(replace(rehearsed(1), id="next"))
    (files.directory / "orders-000009.folder.json").mkdir()
    with pytest.raises(ConfigError, match="cannot be a signed report") as caught:
        files.sign(replace(rehearsed(1), id="next"))
    assert caught.value.unchanged == "Nothing was signed."


def test_a_full_disk_leaves_no_part_of_a_report(
    files: Signings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(files.directory.iterdir())
    link = os.link

    def full(source: str, target: Path) -> None:
        if target.suffix == ".json":
            raise OSError(errno.ENOSPC, "No space left on device")
        link(source, target)

    monkeypatch.setattr(os, "link", full)
    with pytest.raises(OSError, match="No space left"):
        files.sign(replace(rehearsed(1), id="next"))
    assert sorted(files.directory.iterdir()) == before


def test_a_lock_is_not_waited_for_for_long(
    files: Signings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "_LOCK_WAIT_S", 0.1)
    with locked(files.directory / ".lock"):
        assert why_not_writable(files.directory) == "", "looking does not wait"
        with pytest.raises(TimedOut) as caught:
            files.sign(replace(rehearsed(1), id="next"))
    assert caught.value.unchanged == "Nothing was signed." and "sign" in caught.value.hint


def test_a_directory_is_tried_before_it_is_needed(
    files: Signings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(files.directory.iterdir())
    assert why_not_writable(files.directory) == ""
    assert sorted(files.directory.iterdir()) == before
    assert "File name too long" in why_not_writable(tmp_path / ("x" * 300) / "y")
    files.directory.chmod(0o777)
    assert why_not_writable(files.directory) == "can be written by everybody"
    files.directory.chmod(0o700)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "link", full)
    assert why_not_writable(files.directory) == "cannot be written: No space left on device"


# Files that are no evidence, or hostile.


def hostile(files: Signings, content: bytes) -> str:
    """Return what is said of a file that is signed, whatever is in it."""
    files.put(files.paths[0], content, files.key)
    (one,) = verify_files([files.paths[0]], [files.key.public]).files
    assert one.evidence is None
    return one.problem


def test_signed_files_that_are_no_evidence_are_refused_in_a_sentence(files: Signings) -> None:
    good = json.loads(files.paths[0].read_bytes())
    deep = b"[" * 200_000 + b"]" * 200_000
    cases: list[tuple[bytes, str]] = [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not a JSON object"),
        (deep, "not JSON"),
        (b'{"format": ' + deep + b"}", "not JSON"),
        (b'{"v": 1, "v": 1}', "a key appears twice"),
        (b'{"v": NaN}', "NaN is not a number"),
        (b"{}", "not evidence of a drill"),
    ]
    changes: list[tuple[dict[str, object], str]] = [
        ({"format": FORMAT, "v": 2}, "version 2, this release reads version 1"),
        ({"sequence": 0}, "outside 1"),
        ({"sequence": True}, "bool where"),
        ({"previous": "ab"}, "the first of a sequence names one before it"),
        ({"sequence": 2}, "does not name the one before it"),
        ({"signed": "never"}, "not one of: drill, resumed, later"),
        ({"signed_ms": 1e300}, "float where"),
        ({"report": []}, "list where an object"),
        ({"report": {**good["report"], "summary": [1]}}, "int where a string"),
        ({"report": {**good["report"], "checks": "all"}}, "str where a list"),
        ({"report": {**good["report"], "status": "great"}}, "not one of: open, done"),
        ({"key": "ab"}, "names another key"),
    ]
    cases += [(json.dumps({**good, **change}).encode(), said) for change, said in changes]
    for content, said in cases:
        problem = hostile(files, content)
        assert said in problem and "\n" not in problem, (content[:100], problem)


def test_files_that_are_too_large_or_no_files_are_refused(files: Signings, tmp_path: Path) -> None:
    large, pipe = tmp_path / "large.json", tmp_path / "pipe.json"
    with large.open("wb") as file:
        file.truncate(LARGEST_BYTES + 1)
    os.mkfifo(pipe)
    said = [one.problem for one in verify_files([large, pipe], [files.key.public]).files]
    assert said == ["it is larger than 67,108,864 bytes", "it is not a regular file"]
    signature_path(files.paths[0]).unlink()
    os.mkfifo(signature_path(files.paths[0]))
    with pytest.raises(ValueError, match="its signature is not usable: it is not a regular file"):
        read_signed(files.paths[0], [files.key.public])


OFFLINE = """
import sys
from k2ktui.cli.main import cli
code = cli(sys.argv[1:], standalone_mode=False)
loaded = {"confluent_kafka", "kafka", "pyspark"} & sys.modules.keys()
assert not loaded, loaded
sys.exit(code)
"""


@pytest.mark.parametrize("command", ["verify", "summary"])
def test_auditors_need_no_kafka(command: str, files: Signings, tmp_path: Path) -> None:
    key = ["--key", str(tmp_path / "key1.pub")]
    given = [str(files.paths[0])]
    if command == "summary":
        given = [str(files.directory), "-o", str(tmp_path / "page.html")]
    arguments = ["evidence", command, *given, *key]
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr


# The page.


def test_a_page_lists_what_is_verified_and_what_is_wrong_first(files: Signings) -> None:
    files.sign(replace(switched_over(), pipeline=HOSTILE, id="hostile"))
    forged = files.paths[1]
    forged.write_bytes(forged.read_bytes().replace(b"rehearse", b"disaster"))
    verified = files.verify()
    page = render_html(make_summary(verified, choose(verified, 0, None), "Signed reports"))
    texts = Page(page).texts
    shown = "\n".join(texts)
    assert texts.index("Problems") < texts.index("Drills")
    assert "another key has signed it" in shown and "number 2 is missing" in shown
    assert "<script" not in page and "the highest number is 5" in shown
    listed = [text for text in texts if text.startswith("rehearsal 2026")]
    assert len(listed) == 4, "one of the five is not what was signed"


def test_a_drill_that_lost_records_does_not_pass(files: Signings) -> None:
    """None of its checks failed: what is missing was counted after them."""
    files.sign(replace(switched_over(), id="lossy", figures=DrillFigures(rpo_records=900)))
    assert [one.has_findings for one in files.verify().evidence] == [False] * 5 + [True]
    verified = files.verify()
    page = make_summary(verified, choose(verified, 0, None), "Signed reports")
    rows = next(section.rows for section in page.sections if section.title == "Drills")
    results = {row[3].split()[-1]: row[4] for row in rows}
    assert results.pop("lossy") == "findings"
    assert set(results.values()) == {"pass"}


def test_a_page_of_a_quarter_has_its_drills_and_problems_of_all(files: Signings) -> None:
    files.remove(files.paths[1])
    verified = files.verify()
    since = verified.evidence[2].ended_ms
    assert [one.place.sequence for one in choose(verified, since, None)] == [5, 4]
    assert [one.place.sequence for one in choose(verified, 0, 3)] == [5, 4, 3]
    summary = make_summary(verified, choose(verified, since, 1), "Signed reports")
    assert summary.is_good is False
    assert any("number 2 is missing" in item for item in summary.sections[0].items)


def test_keys_of_one_seed_are_the_same(tmp_path: Path) -> None:
    assert make_key(tmp_path).fingerprint == make_key(tmp_path).fingerprint
    assert make_key(tmp_path).fingerprint != make_key(tmp_path, 2).fingerprint
    assert "PRIVATE" not in repr(make_key(tmp_path))
