"""What a user can mend: one line, and exit status 2 at the shell."""

from __future__ import annotations


class UserError(Exception):
    """Bad input or a missing precondition. The message names the field and the mend."""


class PromisesAtStake(UserError):
    """Another policy could not be chosen without breaking what jobs were promised."""


class NotConnected(UserError):
    """There is no Ray cluster, or no scheduler on it, to talk to."""


class CheckpointError(UserError):
    """What a job has trained could not be saved: it fails rather than lose more."""

    def __init__(self, path: str, error: Exception) -> None:
        super().__init__(path, error)
        self.path, self.error = path, error

    def __str__(self) -> str:
        why = " ".join(str(self.error).split())[:200]
        return (  # the path last: Ray shows the end of a long error
            f"{why}: no checkpoint could be written to {self.path}; free space there, or name "
            "another place by checkpoint=, and submit the job again"
        )


class JobStopped(RuntimeError):
    """The scheduler ended the job: it was cancelled or rejected."""
