"""Read Java's own key stores (JKS, JCEKS) with pyjks, an optional package.

``k2ktui.kafka.auth.stores`` turns the result into PEM; nothing is written to a file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DIGEST_BYTES = 20
# Java's constant, which precedes the content in the digest.
_DIGEST_SALT = b"Mighty Aphrodite"
# NULL in DER.
_NULL = b"\x05\x00"


class NotReadable(Exception):
    """A store cannot be read; the message says why, without any of its content."""


class WrongPassword(NotReadable):
    """The password is wrong."""


@dataclass(frozen=True)
class JavaKey:
    """A private key's certificates as DER, leaf first, and its entry, encrypted."""

    chain: tuple[bytes, ...]
    entry: Any = field(repr=False)

    def decrypt(self, password: str) -> bytes:
        """Return the private key as unencrypted PKCS#8.

        Raises:
            WrongPassword: it cannot be decrypted with this password.
            NotReadable: it is damaged.
        """
        import jks

        try:
            self.entry.decrypt(password)
        except (jks.DecryptionFailureException, ValueError) as error:
            raise WrongPassword("the password of the private key is wrong") from error
        except Exception:
            # The cause quotes what a parser has read: parts of the private key.
            raise NotReadable("its private key is damaged") from None
        return bytes(self.entry.pkey_pkcs8)


@dataclass(frozen=True)
class JavaStore:
    """Content of a Java key store.

    Attributes:
        trusted: certificates that a client trusts as DER, with the first one of each key's chain
            as in Java.
        keys: the private keys.
    """

    trusted: tuple[bytes, ...]
    keys: tuple[JavaKey, ...]


def is_java_store(content: bytes) -> bool:
    """Return whether a file is a JKS or JCEKS store."""
    return content.startswith(_MAGIC)


def can_read_java_stores() -> bool:
    """Return whether the optional package is installed."""
    return find_spec("jks") is not None


def read_java_store(content: bytes, password: str | None) -> JavaStore:
    """Read a JKS or JCEKS store.

    Args:
        content: the file.
        password: of the store; without one, its integrity is not checked, as in Java.

    Raises:
        WrongPassword: the password is wrong, or the content was changed.
        NotReadable: the store is damaged.
    """
    import jks  # optional, and slow to import

    if not password:
        content, password = _with_empty_password(content), ""
    try:
        store = jks.KeyStore.loads(content, password, try_decrypt_keys=False)
    except jks.KeystoreSignatureException as error:
        raise WrongPassword("the password of the store is wrong") from error
    except Exception as error:  # pyjks raises what its parsers raise
        raise NotReadable("it is damaged") from error
    for entry in store.private_keys.values():
        _add_parameters(entry)
    keys = tuple(
        JavaKey(tuple(bytes(der) for _, der in entry.cert_chain), entry)
        for entry in store.private_keys.values()
    )
    own = (bytes(entry.cert) for entry in store.certs.values())
    return JavaStore((*own, *(key.chain[0] for key in keys if key.chain)), keys)


def _add_parameters(entry: Any) -> None:
    """Give the key's algorithm the empty parameters that pyjks 20 asks for, if it has none.

    Parameters are optional (RFC 5280, AlgorithmIdentifier). Older versions of Java write NULL, the
    keytool of Java 25 leaves them out; pyjks then fails before it looks at the password.
    """
    from pyasn1.codec.der import decoder, encoder
    from pyasn1.error import PyAsn1Error
    from pyasn1_modules import rfc5208

    try:
        key, _ = decoder.decode(entry._encrypted, asn1Spec=rfc5208.EncryptedPrivateKeyInfo())  # noqa: SLF001
        if not key["encryptionAlgorithm"]["parameters"].isValue:
            key["encryptionAlgorithm"]["parameters"] = _NULL
            entry._encrypted = encoder.encode(key)  # noqa: SLF001
    except PyAsn1Error:
        return  # a damaged key is reported when it is decrypted


def _with_empty_password(content: bytes) -> bytes:
    """Return the store with the digest of an empty password, which pyjks always checks."""
    body = content[:-_DIGEST_BYTES]
    digest = hashlib.sha1(_DIGEST_SALT + body, usedforsecurity=False).digest()
    return body + digest
