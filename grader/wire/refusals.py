"""What is said in the API server's place: the words of the wire's own refusals and of rules."""

from __future__ import annotations

from grader.wire.rules import REASONS, Rule

UPGRADE_REFUSED = (
    "This wire carries requests and watches; exec, attach, cp and port-forward need an "
    "upgraded connection. Use `phase4 kubectl`, which speaks to the API server directly."
)
IMPERSONATION_REFUSED = (
    "The wire gives this process its identity, so it cannot act as another user: "
    "leave out --as and Impersonate-* headers."
)

TIMED_OUT = "Timeout: request did not complete within requested timeout - context deadline exceeded"

#: What the API server says with each code, so that clients that read messages are content.
_MESSAGES = {
    409: "Operation cannot be fulfilled: the object has been modified; please apply your "
    "changes to the latest version and try again",
    410: "The provided resource version is too old.",
    422: "The object is invalid.",
    429: "The server has received too many requests, please try again later.",
    500: "Internal error occurred",
    503: "The server is currently unable to handle the request",
    504: TIMED_OUT,
}

_NO_WATCH_LIST = (
    'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents '
    "is forbidden for watch unless the WatchList feature gate is enabled"
)


def of_rule(rule: Rule) -> tuple[int, str, str, int | None]:
    """Code, reason, message and Retry-After with which a rule refuses a request."""
    if rule.action == "refuse-watchlist":
        return 422, "Invalid", _NO_WATCH_LIST, None
    code = 504 if rule.action == "timeout" else rule.code
    reason = rule.reason or REASONS.get(code, "")
    return code, reason, rule.message or _MESSAGES.get(code, "refused by a rule"), rule.retry_after
