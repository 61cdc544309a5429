"""What to tell an operator when a cluster does not let us in, by either client library."""

from __future__ import annotations

from k2ktui.errors import ConnectionFailed


def login_refused(label: str, reason: str) -> ConnectionFailed:
    """Return the error for a login that was refused; ``reason`` is in the broker's words."""
    return ConnectionFailed(
        f"the {label} cluster refused the login: {reason}",
        mend=f"Check sasl.mechanism and sasl.jaas.config (user and password) of {label}.kafka.",
    )


def not_trusted(label: str, reason: str) -> ConnectionFailed:
    """Return the error for a broker whose certificate we do not accept."""
    return ConnectionFailed(
        f"the {label} cluster's certificate is not trusted: {reason}",
        mend=f"Check ssl.truststore.* of {label}.kafka, and that bootstrap.servers has the host "
        "names that the certificate names.",
    )
