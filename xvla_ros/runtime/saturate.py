"""`python -m xvla_ros.runtime.saturate N`: keeps N threads of torch busy, as inference does.

For measuring what a process beside it still gets. Ends with its standard input.
"""

from __future__ import annotations

import sys
import threading

import torch

_SIZE = 512


def main() -> None:
    """Multiplies matrices until nobody listens any more."""
    threads = int(sys.argv[1])
    torch.set_num_threads(threads)
    for _ in range(threads):
        threading.Thread(target=_work, daemon=True).start()
    sys.stdin.read()


def _work() -> None:
    torch.set_num_threads(1)
    matrix = torch.rand(_SIZE, _SIZE) / _SIZE
    product = torch.empty_like(matrix)
    while True:
        torch.matmul(matrix, matrix, out=product)


if __name__ == "__main__":
    main()
