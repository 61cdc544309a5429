"""Signed reports of made drills, as a drill's process leaves them, and keys for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from k2ktui.drill.evidence.directory import signature_path, write_signed
from k2ktui.drill.evidence.document import Place, Signed, digest_of, write_document
from k2ktui.drill.evidence.keys import PublicKey, SigningKey, read_signing_key
from k2ktui.drill.evidence.verification import Verified, verify_files
from k2ktui.drill.facts import GroupReads
from k2ktui.drill.report import report_json
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.records.state import SourcePartition
from tests.support.drill.made_drills import NOON_MS, rehearsed

READS = (
    GroupReads("billing", SourcePartition("orders", 0), 5, ("orders", 0), ("aa", "bb"), (7, 8)),
)
VERSIONS = {"k2ktui": "1.0", "python": "3.11.0", "cryptography": "45.0.0"}


def write_key(path: Path, passphrase: str = "", seed: int = 1) -> Path:
    """Write a private key, and its public key beside it; return its path."""
    private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase:
        encryption = serialization.BestAvailableEncryption(passphrase.encode())
    path.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )
    )
    path.chmod(0o600)
    path.with_suffix(".pub").write_bytes(
        private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return path


def make_key(folder: Path, seed: int = 1) -> SigningKey:
    """Return a private key; keys of one seed are the same."""
    return read_signing_key(write_key(folder / f"key{seed}.pem", seed=seed), None, None)


def write_sign(folder: Path, name: str = "sign", passphrase: str = "", **keys: str) -> str:
    """Write a key, and a file with ``drill.sign`` alone; return the name of that file.

    Args:
        folder: where they are written.
        name: name of both.
        passphrase: that of the key.
        keys: keys of ``drill.sign``; by default that of the key.
    """
    keys = {"key": str(write_key(folder / f"{name}.pem", passphrase)), **keys}
    (folder / f"{name}.yaml").write_text(json.dumps({"drill": {"sign": keys}}))
    return f"{name}.yaml"


def make_document(
    drill: Drill, key: SigningKey, place: Place, signed: Signed = Signed.BY_DRILL
) -> bytes:
    """Return the document of a drill, signed a second after its end."""
    return write_document(
        drill,
        READS,
        place,
        key=key.fingerprint,
        signed_ms=(drill.ended_ms or NOON_MS) + 1000,
        signed_by="ops@bastion1",
        signed=signed,
        versions=VERSIONS,
    )


class Signings:
    """A directory with the signed reports of rehearsals, an hour apart.

    Args:
        folder: an empty folder.
        number: number of rehearsals of the pipeline ``orders``.
    """

    def __init__(self, folder: Path, number: int = 5) -> None:
        self.directory = folder / "evidence"
        self.key, self.other = make_key(folder), make_key(folder, 2)
        self.drills = [
            replace(rehearsed(60.0 * (number - n)), id=f"20261121-{n:06}-d1d1")
            for n in range(number)
        ]
        self.paths = [self.sign(drill) for drill in self.drills]

    def sign(self, drill: Drill, key: SigningKey | None = None) -> Path:
        """Sign the report of a drill as the next one; by default with the right key."""
        by = key or self.key
        return write_signed(
            self.directory,
            by,
            drill.pipeline,
            drill.id,
            lambda place: make_document(drill, by, place),
        )

    @property
    def documents(self) -> list[Path]:
        """All documents of the directory."""
        return sorted(self.directory.glob("*.json"))

    def verify(self, *keys: PublicKey) -> Verified:
        """Verify all documents; by default with the right public key."""
        return verify_files(self.documents, keys or (self.key.public,))

    def put(self, path: Path, content: bytes, key: SigningKey | None = None) -> None:
        """Write a document over another one; with a key, also its signature."""
        path.write_bytes(content)
        if key is not None:
            signature_path(path).write_bytes(key.sign(content))

    def change(
        self, path: Path, change: Callable[[Any], object], key: SigningKey | None = None
    ) -> None:
        """Change what a document says, and serialize it as it was."""
        body = json.loads(path.read_bytes())
        change(body)
        self.put(path, (json.dumps(body, indent=1) + "\n").encode(), key)

    def remove(self, path: Path) -> None:
        """Remove a document with its signature."""
        path.unlink()
        signature_path(path).unlink()

    def swap(self, first: Path, second: Path) -> None:
        """Exchange the contents of two files."""
        contents = first.read_bytes(), second.read_bytes()
        second.write_bytes(contents[0])
        first.write_bytes(contents[1])

    def digest(self, number: int) -> str:
        """Return the SHA-256 of a document."""
        return digest_of(self.paths[number].read_bytes())

    def write_report(self, drill: Drill, name: str = "report.json") -> Path:
        """Write what ``k2ktui drill report --json`` prints of a drill's record."""
        path = self.directory.parent / name
        path.write_text(json.dumps(report_json(drill)))
        return path
