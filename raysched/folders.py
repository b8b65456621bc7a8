"""Folders that a user named for what will be written."""

from __future__ import annotations

import os
from pathlib import Path


def obstacle(folder: str | os.PathLike[str]) -> str:
    """Why nothing can be written to a folder, which may be yet to be made, and the mend; empty:
    something can."""
    existing = Path(os.path.abspath(os.path.expanduser(folder)))
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        return f"{existing} is a file; name a directory"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"{existing} cannot be written; name another directory"
    return ""
