"""Read Java key stores and trust stores as PEM text, in memory.

PEM (inline or a file), PKCS#12, and with an optional package JKS are supported. The content
determines the format, because a wrong or missing ``ssl.*store.type`` is common.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from k2ktui.errors import install_command
from k2ktui.kafka.auth.java_stores import (
    JavaStore,
    NotReadable,
    WrongPassword,
    can_read_java_stores,
    is_java_store,
    read_java_store,
)
from k2ktui.kafka.unusable_property import UnusableProperty
from k2ktui.text import safe_text

_PEM = re.compile(r"-+BEGIN ([A-Z0-9 ]+?)-+\s*(.*?)\s*-+END \1-+", re.DOTALL)


@dataclass(frozen=True)
class Identity:
    """A client certificate chain (leaf first) and its unencrypted private key, both PEM."""

    certificates: str
    key: str = field(repr=False)


def read_trust(properties: Mapping[str, str]) -> str:
    """Return the trusted certificates as PEM; "" if no trust store is set (use the system's).

    Raises:
        UnusableProperty: unreadable, wrong password, or no certificate.
    """
    inline = properties.get("ssl.truststore.certificates", "").strip()
    if inline:
        return _certificates("ssl.truststore.certificates", inline)
    key = "ssl.truststore.location"
    location = properties.get(key, "").strip()
    if not location:
        return ""
    content = _content(key, location)
    text = _as_pem(content)
    if text is not None:
        return _certificates(key, text)
    password = properties.get("ssl.truststore.password")
    if is_java_store(content):
        trusted = _java_store(key, location, content, password).trusted
        if not trusted:
            raise UnusableProperty(key, f"{safe_text(location)} contains no certificate")
        return "".join(_pem(_from_der(key, location, certificate)) for certificate in trusted)
    store = _pkcs12(key, location, content, password)
    certificates = [*([store.cert] if store.cert else []), *store.additional_certs]
    if not certificates:
        raise UnusableProperty(key, f"{safe_text(location)} contains no certificate")
    return "".join(_pem(item.certificate) for item in certificates)


def read_identity(properties: Mapping[str, str]) -> Identity | None:
    """Return the client's certificate chain and key, or None if no key store is set.

    Raises:
        UnusableProperty: unreadable, wrong password, no key, or a key that does not match the
            certificate.
    """
    key_password = properties.get("ssl.key.password")
    inline = properties.get("ssl.keystore.key", "").strip()
    if inline:
        chain = properties.get("ssl.keystore.certificate.chain", "")
        certificates = _certificates("ssl.keystore.certificate.chain", chain)
        return _make_identity(
            "ssl.keystore.key", certificates, _key(inline, key_password, inline=True)
        )
    key = "ssl.keystore.location"
    location = properties.get(key, "").strip()
    if not location:
        return None
    content = _content(key, location)
    text = _as_pem(content)
    if text is not None:
        certificates = _certificates(key, text)
        return _make_identity(key, certificates, _key(text, key_password, inline=False))
    password = properties.get("ssl.keystore.password")
    if is_java_store(content):
        return _from_java_store(key, location, content, password, key_password)
    return _from_pkcs12(key, location, content, password)


def _from_pkcs12(key: str, location: str, content: bytes, password: str | None) -> Identity:
    store = _pkcs12(key, location, content, password)
    if store.key is None or store.cert is None:
        raise UnusableProperty(
            key, f"{safe_text(location)} contains no private key with its certificate"
        )
    chain = [store.cert.certificate, *_chain(store)]
    return Identity("".join(map(_pem, chain)), _decrypt_key(store.key))


def _chain(store: pkcs12.PKCS12KeyAndCertificates) -> list[x509.Certificate]:
    """Return the issuers in TLS order; the certificates of a PKCS#12 bag are unordered."""
    pool = {item.certificate.subject: item.certificate for item in store.additional_certs}
    chain: list[x509.Certificate] = []
    current = store.cert.certificate if store.cert else None
    while current is not None and current.issuer != current.subject:
        current = pool.pop(current.issuer, None)
        if current is not None:
            chain.append(current)
    return chain


def _content(key: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        reason = f"{safe_text(location)} cannot be read: {error.strerror}"
        raise UnusableProperty(key, reason) from error


def _as_pem(content: bytes) -> str | None:
    return content.decode("latin-1") if b"-----BEGIN " in content else None


def _pkcs12(
    key: str, location: str, content: bytes, password: str | None
) -> pkcs12.PKCS12KeyAndCertificates:
    secret = password.encode() if password else None
    try:
        return pkcs12.load_pkcs12(content, secret)
    except ValueError as error:
        owner = _password_key(key)
        fault = "wrong" if password else "missing"
        reason = f"{safe_text(location)} is not a PEM, PKCS#12 or JKS store, or {owner} is {fault}"
        raise UnusableProperty(key, reason) from error


def _java_store(key: str, location: str, content: bytes, password: str | None) -> JavaStore:
    name = safe_text(location)
    if not can_read_java_stores():
        raise UnusableProperty(
            key,
            f"{name} is a Java key store (JKS); install a reader, in k2ktui's checkout, with: "
            f"{install_command('jks')}, or convert it with: keytool -importkeystore "
            f"-srckeystore {name} -destkeystore {Path(name).stem}.p12 -deststoretype PKCS12",
        )
    try:
        return read_java_store(content, password)
    except WrongPassword as error:
        raise UnusableProperty(_password_key(key), f"it is not the password of {name}") from error
    except NotReadable as reason:
        raise UnusableProperty(key, f"{name} cannot be used: {reason}") from reason


def _from_java_store(
    key: str, location: str, content: bytes, password: str | None, key_password: str | None
) -> Identity:
    name = safe_text(location)
    store = _java_store(key, location, content, password)
    if not store.keys or not store.keys[0].chain:
        raise UnusableProperty(key, f"{name} contains no private key with its certificate")
    if len(store.keys) > 1:
        reason = f"{name} contains {len(store.keys)} private keys; keep the one for this client"
        raise UnusableProperty(key, reason)
    secret = key_password or password
    if not secret:
        raise UnusableProperty(
            "ssl.keystore.password", f"missing; the private key in {name} needs it"
        )
    try:
        private = store.keys[0].decrypt(secret)
        loaded = serialization.load_der_private_key(private, None)
    except WrongPassword as error:
        owner = "ssl.key.password" if key_password else "ssl.keystore.password"
        raise UnusableProperty(
            owner, f"it is not the password of the private key in {name}"
        ) from error
    except (NotReadable, ValueError, TypeError) as error:
        raise UnusableProperty(key, f"{name} cannot be used: its private key is damaged") from error
    chain = "".join(
        _pem(_from_der(key, location, certificate)) for certificate in store.keys[0].chain
    )
    return _make_identity(key, chain, _decrypt_key(loaded))


def _from_der(key: str, location: str, content: bytes) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(content)
    except ValueError as error:
        name = safe_text(location)
        raise UnusableProperty(key, f"{name} cannot be used: a certificate is damaged") from error


def _password_key(key: str) -> str:
    return "ssl.truststore.password" if "trust" in key else "ssl.keystore.password"


def _blocks(text: str, kind: str) -> list[str]:
    """Return the PEM blocks whose label ends in ``kind``, normalized for a strict parser.

    Folded YAML and Java's one-line form replace line breaks with spaces or a literal ``\\n``.
    """
    blocks = _PEM.finditer(text.replace("\\n", "\n"))
    return [
        _block(label, body) for label, body in (m.groups() for m in blocks) if label.endswith(kind)
    ]


def _block(label: str, body: str) -> str:
    if ":" not in body:
        flat = "".join(body.split())
        body = "\n".join(flat[at : at + 64] for at in range(0, len(flat), 64))
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"


def _certificates(key: str, text: str) -> str:
    blocks = _blocks(text, "CERTIFICATE")
    if not blocks:
        raise UnusableProperty(key, "it contains no PEM certificate (-----BEGIN CERTIFICATE-----)")
    try:
        for block in blocks:
            base64.b64decode("".join(block.splitlines()[1:-1]), validate=True)
            x509.load_pem_x509_certificate(block.encode())
    except (ValueError, binascii.Error) as error:
        raise UnusableProperty(key, "it contains a damaged PEM certificate") from error
    return "".join(blocks)


def _key(text: str, password: str | None, *, inline: bool) -> str:
    key = "ssl.keystore.key" if inline else "ssl.keystore.location"
    blocks = _blocks(text, "PRIVATE KEY")
    if not blocks:
        raise UnusableProperty(key, "it contains no PEM private key (-----BEGIN PRIVATE KEY-----)")
    encrypted = "ENCRYPTED" in blocks[0]
    if encrypted and not password:
        raise UnusableProperty("ssl.key.password", "missing; the private key is encrypted")
    secret = password.encode() if encrypted and password else None
    try:
        loaded = serialization.load_pem_private_key(blocks[0].encode(), secret)
    except (ValueError, TypeError) as error:
        reason = "the private key is damaged, or ssl.key.password is wrong"
        raise UnusableProperty(key, reason) from error
    return _decrypt_key(loaded)


def _decrypt_key(key: object) -> str:
    private: bytes = key.private_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private.decode()


def _make_identity(key: str, certificates: str, private: str) -> Identity:
    encoding = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    owner = x509.load_pem_x509_certificate(certificates.encode()).public_key()
    loaded = serialization.load_pem_private_key(private.encode(), None).public_key()
    if owner.public_bytes(*encoding) != loaded.public_bytes(*encoding):
        raise UnusableProperty(key, "the private key does not belong to the first certificate")
    return Identity(certificates, private)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
