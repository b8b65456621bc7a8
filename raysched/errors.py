"""What a user can mend: one line, and exit status 2 at the shell."""

from __future__ import annotations


class UserError(Exception):
    """Bad input or a missing precondition. The message names the field and the mend."""


class PromisesAtStake(UserError):
    """Another policy could not be chosen without breaking what jobs were promised."""


class NotConnected(UserError):
    """There is no Ray cluster, or no scheduler on it, to talk to."""
