"""A server of a product, for tests that kill it: `chaos_server PORT DISK`.

The newest form of the model keeps each answer on the disk, where there is one. Where that is full
it raises, and takes its process along one time of four.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

from triton_dsl.runtime.serving.models import Loaded, Served
from triton_dsl.runtime.serving.server import application
from triton_dsl.runtime.serving.signature import FREE, Port, Signature

Array = np.ndarray[Any, Any]
F32 = np.dtype(np.float32)
SIGNATURE = Signature([Port("x", F32, (FREE, 3), 0)], [Port("y", F32, (FREE, 2), 0)])
MATRIX = np.array([[1, 0], [-1, 1], [0, 2]], np.float32)


def product(inputs: Sequence[Array]) -> list[Array]:
    return [inputs[0] @ MATRIX]


def main() -> None:
    disk = Path(sys.argv[2])

    def fragile(inputs: Sequence[Array]) -> list[Array]:
        results = product(inputs)
        if disk.exists():
            try:
                with (disk / sys.argv[1]).open("wb") as file:
                    file.write(bytes(65536))
            except OSError:
                if random.random() < 0.25:
                    os._exit(139)
                raise
        return results

    steady = Loaded(product, SIGNATURE, "steady")
    newest = Loaded(fragile, SIGNATURE, "fragile")
    app = application([Served("net", [lambda: steady, lambda: newest])])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")


if __name__ == "__main__":
    main()
