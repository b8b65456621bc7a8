"""What policies say alike: what happens to the size of a job."""

from __future__ import annotations


def change(workers: int, before: int) -> str:
    """A template over `workers`, from now on, and `before`; 0 of either: the job waits."""
    if workers == before:
        return "keeps its {workers} workers" if workers else "waits"
    if not workers:
        return "gives up its {before} workers"
    if not before:
        return "starts on {workers} workers"
    return ("grows" if workers > before else "shrinks") + " from {before} to {workers} workers"
