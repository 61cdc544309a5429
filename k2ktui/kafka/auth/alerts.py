"""What a broker's TLS alerts say about this client's certificate.

The alerts are those of RFC 8446, section 6. A broker sends one about the certificate that it was
sent: in TLS 1.3, after the client's handshake has ended. OpenSSL names them in a field of Python's
errors. librdkafka's errors have OpenSSL's error code only in their text, as hexadecimal digits.
"""

from __future__ import annotations

import re

# Alerts by number (RFC 8446); Java's brokers send 46 for most causes.
_ALERTS = {
    42: "BAD_CERTIFICATE",
    43: "UNSUPPORTED_CERTIFICATE",
    44: "CERTIFICATE_REVOKED",
    45: "CERTIFICATE_EXPIRED",
    46: "CERTIFICATE_UNKNOWN",
    48: "UNKNOWN_CA",
    49: "ACCESS_DENIED",
    116: "CERTIFICATE_REQUIRED",
}
_REASONS = frozenset(
    f"{version}_ALERT_{name}"
    for version in ("SSLV3", "TLSV1", "TLSV13")
    for name in _ALERTS.values()
)
# ERR_GET_LIB and ERR_GET_REASON of OpenSSL 3; an alert's reason is 1000 and its number.
_CODE = re.compile(r"\berror:([0-9A-F]{8}):")
_TLS_LIBRARY, _REASON_BITS = 20, 23
_FIRST_ALERT = 1000
_VERIFY_FAILED = 134


def refused_certificate(reason: str) -> bool:
    """Return whether Python's name of a TLS error says that the peer refused our certificate."""
    return reason in _REASONS


def refused_certificate_code(text: str) -> bool:
    """Return whether OpenSSL's code in a text of librdkafka says that; see above."""
    return _reason(text) - _FIRST_ALERT in _ALERTS


def untrusted_code(text: str) -> bool:
    """Return whether OpenSSL's code in a text says that the peer's certificate is not trusted."""
    return _reason(text) == _VERIFY_FAILED


def _reason(text: str) -> int:
    code = _CODE.search(text)
    number = int(code[1], 16) if code else 0
    is_tls = number >> _REASON_BITS & 0xFF == _TLS_LIBRARY
    return number & ((1 << _REASON_BITS) - 1) if is_tls else 0
