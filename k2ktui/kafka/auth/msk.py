"""AWS MSK IAM: OAUTHBEARER logins with tokens that AWS's signer makes from AWS credentials.

Java clients use the mechanism AWS_MSK_IAM and a login module of AWS, or OAUTHBEARER with a callback
handler of AWS. MSK brokers accept OAUTHBEARER tokens for both. The signer is an optional package.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from time import time

from k2ktui.errors import ConnectionFailed, install_command
from k2ktui.kafka.auth.oauth import CachingTokenProvider
from k2ktui.kafka.unusable_property import UnusableProperty
from k2ktui.text import safe_text

MSK_MECHANISM = "AWS_MSK_IAM"
_JAAS = "sasl.jaas.config"
_MECHANISM = "sasl.mechanism"
_CLIENT_HANDLER = "sasl.client.callback.handler.class"
_LOGIN_HANDLER = "sasl.login.callback.handler.class"
_AWS = "software.amazon.msk.auth.iam.IAM"
_PACKAGE = "aws_msk_iam_sasl_signer"
_TIMEOUT_S = 10.0
# b-1.name.abc123.c2.kafka.eu-west-1.amazonaws.com, boot-x.c1.kafka-serverless.cn-north-1.….com.cn
_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")
_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
_OPTIONS = ("awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsRegion")


@dataclass(frozen=True)
class MskSigner:
    """Whose AWS credentials sign tokens for which region.

    With neither ``profile`` nor ``role_arn``, they are those that AWS's SDK finds: environment,
    files, then the role of the machine or container. No secret is kept here.
    """

    region: str
    profile: str = ""
    role_arn: str = ""
    session_name: str = ""


class MskTokens(CachingTokenProvider):
    """Signs tokens in memory; each is used for 80 % of its lifetime of 15 minutes.

    A copy in another process signs with the credentials that it finds there.
    """

    def __init__(self, signer: MskSigner) -> None:
        super().__init__()
        self.signer = signer

    def __reduce__(self) -> tuple[object, ...]:
        return MskTokens, (self.signer,)

    def _fetch(self) -> tuple[str, float]:
        """Return a new token and its lifetime in seconds.

        Raises:
            ConnectionFailed: there are no credentials, or AWS's role service does not answer.
        """
        results: list[tuple[str, float]] = []
        failures: list[str] = []

        def run() -> None:
            try:
                token, expires_ms = sign(self.signer)
                results.append((token, expires_ms / 1000 - time()))
            except Exception as error:  # the SDK's errors have no common class
                failures.append(_reason(error))

        # The SDK may query services of AWS, with time-outs that are far longer.
        thread = threading.Thread(target=run, name="msk-signer", daemon=True)
        thread.start()
        thread.join(_TIMEOUT_S)
        if results:
            return results[0]
        reason = failures[0] if failures else f"no answer within {_TIMEOUT_S:g} s"
        raise ConnectionFailed(
            f"no AWS token for region {safe_text(self.signer.region)}: {reason}",
            hint="Check the AWS credentials of this account, awsProfileName and awsRoleArn.",
        )


def sign(signer: MskSigner) -> tuple[str, int]:
    """Return a token and when it expires, in milliseconds since 1970."""
    # A slow import; only these logins need it.
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as vendor

    if signer.profile:
        made = vendor.generate_auth_token_from_profile(signer.region, signer.profile)
    elif signer.role_arn:
        named = {"sts_session_name": signer.session_name} if signer.session_name else {}
        made = vendor.generate_auth_token_from_role_arn(signer.region, signer.role_arn, **named)
    else:
        made = vendor.generate_auth_token(signer.region)
    token, expires_ms = made
    return str(token), int(expires_ms)


def _reason(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"the Python package {_PACKAGE} is not installed here"
    if isinstance(error, AttributeError):  # the signer does not check what the SDK found
        return "no AWS credentials were found"
    return safe_text((str(error) or type(error).__name__).splitlines()[0], 200)


def uses_msk(properties: Mapping[str, str], mechanism: str) -> bool:
    """Return whether a login is one of AWS MSK IAM.

    Raises:
        UnusableProperty: a callback handler of AWS is set for another mechanism.
    """
    by_login = (
        properties.get(_LOGIN_HANDLER, "").strip() == f"{_AWS}OAuthBearerLoginCallbackHandler"
    )
    by_client = properties.get(_CLIENT_HANDLER, "").strip() == f"{_AWS}ClientCallbackHandler"
    if by_client and mechanism != MSK_MECHANISM:
        reason = f"this handler is for {_MECHANISM}={MSK_MECHANISM}, not {mechanism}"
        raise UnusableProperty(_CLIENT_HANDLER, reason)
    if by_login and mechanism != "OAUTHBEARER":
        reason = f"this handler is for {_MECHANISM}=OAUTHBEARER, not {mechanism}"
        raise UnusableProperty(_LOGIN_HANDLER, reason)
    return by_login or mechanism == MSK_MECHANISM


def read_signer(properties: Mapping[str, str], options: Mapping[str, str]) -> MskSigner:
    """Return the signer of a login.

    Args:
        properties: Java client properties.
        options: options of the login line; empty without one.

    Raises:
        UnusableProperty: an option has no counterpart, the region is unknown, the protocol has no
            TLS, or the signer is not installed.
    """
    if find_spec(_PACKAGE) is None:
        reason = (
            f"{MSK_MECHANISM} needs AWS's signer; install it, in k2ktui's checkout, with: "
            f"{install_command('msk')}"
        )
        raise UnusableProperty(_MECHANISM, reason)
    if properties.get("security.protocol", "").strip().upper() != "SASL_SSL":
        reason = f"{MSK_MECHANISM} needs SASL_SSL: a token without TLS can be read on the way"
        raise UnusableProperty("security.protocol", reason)
    _check_options(options)
    return MskSigner(
        region=_region(properties, options),
        profile=options.get("awsProfileName", ""),
        role_arn=options.get("awsRoleArn", ""),
        session_name=options.get("awsRoleSessionName", ""),
    )


def _check_options(options: Mapping[str, str]) -> None:
    unknown = sorted(
        name
        for name, text in options.items()
        if name not in _OPTIONS and (name, text.lower()) != ("awsDebugCreds", "false")
    )
    if unknown:
        names = ", ".join(safe_text(name, 40) for name in unknown)
        reason = f"{names} not supported; the options of {MSK_MECHANISM} are {', '.join(_OPTIONS)}"
        raise UnusableProperty(_JAAS, reason)
    if options.get("awsProfileName") and options.get("awsRoleArn"):
        raise UnusableProperty(_JAAS, "give one of awsProfileName and awsRoleArn, not both")
    if options.get("awsRoleSessionName") and not options.get("awsRoleArn"):
        raise UnusableProperty(_JAAS, "awsRoleSessionName needs awsRoleArn")


def _region(properties: Mapping[str, str], options: Mapping[str, str]) -> str:
    regions = set()
    for server in properties.get("bootstrap.servers", "").split(","):
        match = _HOST.search(server.strip().rpartition(":")[0].lower())
        if match:
            regions.add(match[1])
    named = options.get("awsRegion", "").strip()
    if not named and len(regions) > 1:
        reason = f"its brokers are in several AWS regions: {', '.join(sorted(regions))}"
        raise UnusableProperty("bootstrap.servers", reason)
    by_sdk = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""
    region = named or next(iter(regions), "") or by_sdk.strip()
    if not _REGION.fullmatch(region):
        reason = (
            "the AWS region is not part of the brokers' host names; "
            'add awsRegion="…" to the login line, or set AWS_REGION'
        )
        raise UnusableProperty(_JAAS, reason)
    return region
