"""Certificates and key stores for tests."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

_LIFE = datetime.timedelta(days=2)


@dataclass(frozen=True)
class Holder:
    """A certificate with its key; ``chain`` are its issuers, nearest first, without the root."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...] = ()

    @property
    def is_root(self) -> bool:
        """Whether it signed itself."""
        return self.certificate.issuer == self.certificate.subject

    @property
    def certificates_pem(self) -> str:
        """The certificate and its issuers."""
        return "".join(map(certificate_pem, (self.certificate, *self.chain)))

    def key_pem(self, password: str | None = None) -> str:
        """The key as PKCS#8, encrypted with a password."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        private = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
        )
        return private.decode()

    def pkcs12(self, path: Path, password: str) -> Path:
        """Write a key store."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        issuers = list(self.chain) or None
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"me", self.key, self.certificate, issuers, encryption
            )
        )
        return path

    def pem_file(self, path: Path) -> Path:
        """Write a PEM key store: key and certificates in one file."""
        path.write_text(self.key_pem() + self.certificates_pem)
        return path


def certificate_pem(certificate: x509.Certificate) -> str:
    """Return a certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def as_der(pem: str) -> list[bytes]:
    """Return the certificates of PEM text as DER."""
    ends = "-----END CERTIFICATE-----"
    return [ssl.PEM_cert_to_DER_cert(part.strip() + "\n" + ends) for part in pem.split(ends)[:-1]]


def trust_pkcs12(certificate: x509.Certificate, path: Path, password: str) -> Path:
    """Write a trust store."""
    encryption = serialization.BestAvailableEncryption(password.encode())
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(None, None, None, [certificate], encryption)
    )
    return path


def make_root(name: str = "root") -> Holder:
    """Make a certificate authority."""
    return _issue(name, None, authority=True)


def make_intermediate(issuer: Holder, name: str = "intermediate") -> Holder:
    """Make an authority below another one."""
    return _issue(name, issuer, authority=True)


def make_leaf(issuer: Holder, name: str, *hosts: str) -> Holder:
    """Make a certificate of a client (no hosts) or a server; hosts are names or addresses."""
    return _issue(name, issuer, hosts=hosts)


def _issue(
    name: str, issuer: Holder | None, *, authority: bool = False, hosts: tuple[str, ...] = ()
) -> Holder:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer.key if issuer else key
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        # Python 3.13 verifies strictly (RFC 5280): whose key signed, and what a key is for.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
            critical=False,
        )
        .add_extension(_usage(authority=authority), critical=True)
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
        )
    certificate = builder.sign(signer, hashes.SHA256())
    # The root is not sent: who trusts it has it.
    above = (issuer.certificate, *issuer.chain) if issuer and not issuer.is_root else ()
    return Holder(certificate, key, above)


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
