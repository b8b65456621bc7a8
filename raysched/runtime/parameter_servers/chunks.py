"""Who trains which chunk of the data in one epoch (002 §III-B): whoever is free takes the next."""

from __future__ import annotations


class ChunkBook:
    """The chunks of one epoch, 0 … `chunks` - 1: each is finished exactly once.

    A chunk is with one worker at a time. That of a worker which is gone is the next to be taken.
    """

    def __init__(self, chunks: int) -> None:
        self._free = list(range(chunks))[::-1]  # the last one is the next
        self._with: dict[int, int] = {}  # worker -> chunk
        self._left = chunks

    @property
    def over(self) -> bool:
        """Whether all chunks are finished."""
        return self._left == 0

    def take(self, worker: int) -> int | None:
        """The chunk that this worker is to train now; None: none is free at the moment.

        Asked again, it is the same one until it is finished.
        """
        if worker not in self._with:
            if not self._free:
                return None
            self._with[worker] = self._free.pop()
        return self._with[worker]

    def finish(self, worker: int, chunk: int) -> None:
        """The worker has trained its chunk. Said again, or of another's chunk, it is nothing."""
        if self._with.get(worker) == chunk:
            del self._with[worker]
            self._left -= 1

    def drop(self, worker: int) -> None:
        """The worker is gone: what it had not finished is free again."""
        chunk = self._with.pop(worker, None)
        if chunk is not None:
            self._free.append(chunk)
