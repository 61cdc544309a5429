"""What an operator can do about a download that failed."""

from __future__ import annotations

_REFUSED = "CERTIFICATE_VERIFY_FAILED"


def download_hint(error: BaseException, more: str = "") -> str:
    """Return the hint of an error.

    Args:
        error: why a download failed; of an HTTP library, whose errors name OpenSSL's reason.
        more: what else to check if it is not a certificate, for example " and the free space".
    """
    if any(_REFUSED in str(one) for one in _chain(error)):
        return (
            "The server's certificate is not trusted here. If a proxy replaces certificates, name "
            "the file of its certificate authority in REQUESTS_CA_BUNDLE, then run the command "
            "again."
        )
    return f"Check the network or the proxy in HTTPS_PROXY{more}, then run the command again."


def _chain(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain
