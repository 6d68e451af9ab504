"""Whether the scheduler takes a chunk at this moment: epoch, stop, order."""

from __future__ import annotations

from xvla_ros.chunk import Chunk, ChunkRefused, Refusal


class Gate:
    """What must hold of a chunk besides its contents.

    Attributes:
        epoch: chunks of any other epoch are refused.
        stopped: no chunk at all is taken.
        busy: why no chunk is taken for the moment, or empty.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.stopped = False
        self.busy = ""
        self._newest: tuple[float, int] | None = None

    def check(self, chunk: Chunk) -> None:
        """Raises ChunkRefused unless the chunk is of this epoch, newer, and welcome."""
        if chunk.epoch != self.epoch:
            raise ChunkRefused(Refusal.OLD_EPOCH, f"epoch {chunk.epoch}, now {self.epoch}")
        if self.stopped:
            raise ChunkRefused(Refusal.STOPPED, "call clear_stop")
        if self.busy:
            raise ChunkRefused(Refusal.BUSY, self.busy)
        # A policy process that was restarted begins again at sequence 1, but with newer stamps.
        if self._newest is not None and (chunk.stamp, chunk.sequence) <= self._newest:
            raise ChunkRefused(
                Refusal.OUT_OF_ORDER,
                f"stamp {chunk.stamp:.3f}, sequence {chunk.sequence} after "
                f"stamp {self._newest[0]:.3f}, sequence {self._newest[1]}",
            )

    def accept(self, chunk: Chunk) -> bool:
        """Remembers an accepted chunk; true if it is the first of a restarted policy process."""
        restarted = self._newest is not None and chunk.sequence <= self._newest[1]
        self._newest = (chunk.stamp, chunk.sequence)
        return restarted

    def forget_order(self) -> None:
        """Takes any stamp and sequence next: the clock has jumped."""
        self._newest = None
