"""What goes wrong with serving, in one line that says what to do."""

from __future__ import annotations

from raysched.errors import UserError


class InferenceError(UserError):
    """Serving cannot do what was asked; the message names the cause and the mend."""
