"""Ed25519 keys of evidence, in PEM: a private key signs, its public key verifies."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from k2ktui.errors import ConfigError
from k2ktui.private_files import why_others_may_read
from k2ktui.secret_values import remember_secrets
from k2ktui.text import safe_text

SIGNATURE_BYTES = 64
_LARGEST_BYTES = 64 << 10
_TRY_IT = "Try it: openssl pkey -in FILE -noout."
_NEW_KEY = "Make one with openssl genpkey -algorithm ed25519: see docs/evidence.md."


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key; ``fingerprint`` is that of its public key."""

    private: Ed25519PrivateKey = field(repr=False)
    fingerprint: str

    @property
    def public(self) -> PublicKey:
        """Its public key."""
        return PublicKey(self.private.public_key(), self.fingerprint)

    def sign(self, content: bytes) -> bytes:
        """Return the signature of a document."""
        return self.private.sign(content)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key; ``fingerprint`` is the SHA-256 of its DER form, as hex text."""

    key: Ed25519PublicKey
    fingerprint: str

    def has_signed(self, content: bytes, signature: bytes) -> bool:
        """Return whether a signature is of this document and by this key."""
        try:
            self.key.verify(signature, content)
        except InvalidSignature:
            return False
        return True


def read_signing_key(
    path: Path, passphrase_file: Path | None, ask: Callable[[str], str] | None
) -> SigningKey:
    """Return the private key of a file that nobody else may read or write.

    Args:
        path: the file.
        passphrase_file: the file with its passphrase; None without one.
        ask: asks a person for the passphrase of a file of this name; None if nobody can be asked.

    Raises:
        ConfigError: it cannot be used, and why; it contains no part of the key or passphrase.
    """
    content = _read_private("the key", path)
    shown = safe_text(path)
    secret: bytes | None = None
    if b"ENCRYPTED" in content:
        secret = _find_passphrase(path, passphrase_file, ask)
    elif passphrase_file is not None:
        raise ConfigError(
            f"the key {shown} has no passphrase, and drill.sign.passphraseFile names one",
            hint="Leave passphraseFile out, or encrypt the key: openssl pkey -in FILE -aes-256-cbc",
        )
    try:
        private = serialization.load_pem_private_key(content, secret)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        why, hint = "it is no private key in PEM", _NEW_KEY
        if secret is not None:
            why, hint = "the passphrase is wrong, or the key is damaged", _TRY_IT
        raise ConfigError(f"the key {shown} cannot be used: {why}", hint=hint) from error
    if not isinstance(private, Ed25519PrivateKey):
        raise _other_type(shown, private)
    return SigningKey(private, _fingerprint(private.public_key()))


def _find_passphrase(
    path: Path, passphrase_file: Path | None, ask: Callable[[str], str] | None
) -> bytes:
    if passphrase_file is not None:
        secret = _read_private("the passphrase", passphrase_file).rstrip(b"\r\n")
    elif ask is not None:
        secret = ask(safe_text(path)).encode()
    else:
        raise ConfigError(
            f"the key {safe_text(path)} has a passphrase, and nobody can be asked for it here",
            hint="Name a file with the passphrase in drill.sign.passphraseFile, or run the command "
            "at a terminal.",
        )
    if not secret:
        raise ConfigError(f"the passphrase of the key {safe_text(path)} is empty")
    remember_secrets([("passphrase", secret.decode(errors="replace"))])
    return secret


def _read_private(what: str, path: Path) -> bytes:
    """Return what a file contains that is a secret of this user."""
    reason = why_others_may_read(path)
    try:
        if not reason:
            return read_bounded(path, _LARGEST_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror or "" if isinstance(error, OSError) else str(error)
    raise ConfigError(
        f"{what} {safe_text(path)} cannot be used: {reason}",
        hint="Let it be a file of yours with mode 600 in a folder that nobody else can write.",
    )


def read_bounded(path: Path, largest: int) -> bytes:
    """Return what a regular file contains.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no regular file, or larger than so many bytes.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is not a regular file")
    with path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"it is larger than {largest:,} bytes")
    return content


def read_public_key(path: Path) -> PublicKey:
    """Return the public key of a PEM file.

    Raises:
        ConfigError: it cannot be used, and why.
    """
    shown = safe_text(path)
    try:
        content = read_bounded(path, _LARGEST_BYTES)
        if b"PRIVATE KEY" in content:
            raise ConfigError(
                f"{shown} is a private key; --key takes its public key",
                hint=f"Write it to a file: openssl pkey -in {shown} -pubout",
            )
        public = serialization.load_pem_public_key(content)
    except OSError as error:
        raise ConfigError(f"the key {shown} cannot be read: {error.strerror}") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{shown} is no public key in PEM") from error
    if not isinstance(public, Ed25519PublicKey):
        raise _other_type(shown, public)
    return PublicKey(public, _fingerprint(public))


def _other_type(shown: str, key: object) -> ConfigError:
    kind = type(key).__name__.removesuffix("PrivateKey").removesuffix("PublicKey").strip("_")
    return ConfigError(f"the key {shown} is of type {kind}, not Ed25519", hint=_NEW_KEY)


def _fingerprint(public: Ed25519PublicKey) -> str:
    der = public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(der).hexdigest()
