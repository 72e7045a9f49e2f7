"""What a folder has for the computer beside a circuit: the driver, and weights that can be loaded.

The driver is the package's own file. Not here: how weights come into a circuit (`circuit.loading`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import accumulate

from xdsl.dialects import hw
from xdsl.dialects.builtin import ModuleOp

from ...ir.attribute_data import data_of
from .circuit import LOADS
from .circuit.loading import Loads
from .circuit.memories import MEMORY_PREFIX, memory_of

_WORD = re.compile(r"\s*words\[\d+\] = ")
"""A word that a memory begins with, in its Verilog."""


def driver_files() -> dict[str, str]:
    """The driver by its name in the folder."""
    text = files(f"{__package__}.host").joinpath("circuit_driver.py").read_text(encoding="utf-8")
    return {"host/circuit_driver.py": text}


@dataclass(frozen=True)
class Weights:
    """The words of a circuit's memories that can be loaded.

    Attributes:
        loads: the memories.
        layout: of the circuit without those words, SHA-256: the same for circuits that take the
            same loads, and give the same results with the same words.
    """

    loads: Loads
    layout: str

    def files(self) -> dict[str, bytes]:
        """The words, and where each stands, by name in the folder."""
        content, loads = self.loads.contents(), self.loads
        counts = [loads.pieces_of(memory) * memory.depth for memory in loads.memories]
        data = {
            "layout": self.layout,
            "sha256": hashlib.sha256(content).hexdigest(),
            "piece_bits": loads.bits,
            "pieces": loads.pieces,
            "memories": [
                {
                    "name": memory.label,
                    "first_piece": first,
                    "words": memory.depth,
                    "bits": memory.width,
                    "pieces_of_word": loads.pieces_of(memory),
                }
                for memory, first in zip(
                    loads.memories, accumulate(counts, initial=0), strict=False
                )
            ],
        }
        text = json.dumps(data, indent=1) + "\n"
        return {"host/weights.json": text.encode(), "host/weights.bin": content}


def noted_weights(
    module: ModuleOp, texts: Mapping[str, str], bits: int, circuit: str
) -> Weights | None:
    """The weights of a circuit that can be loaded; `None` where none can.

    Args:
        module: of the circuit.
        texts: its Verilog, by module.
        bits: of a piece.
        circuit: its name, which the layout is the same without: it is that of a file.
    """
    noted = module.attributes.get(LOADS)
    if noted is None:
        return None
    named = {
        op.sym_name.data: memory
        for op in module.body.block.ops
        if isinstance(op, hw.HWModuleExternOp) and (memory := memory_of(op))
    }
    symbols: list[str] = data_of(noted)
    layout, own = hashlib.sha256(), re.compile(rf"\b({MEMORY_PREFIX})?{circuit}(?=_|\b)")
    lasting = ("".join(_lasting(text, loaded=name in symbols)) for name, text in texts.items())
    # Longer names break lines elsewhere.
    for text in sorted(" ".join(own.sub("", lines).split()) for lines in lasting):
        layout.update(text.encode())
    return Weights(Loads(tuple(named[symbol] for symbol in symbols), bits), layout.hexdigest())


def _lasting(text: str, *, loaded: bool) -> list[str]:
    """The lines of a module that are the same for all loads: no comments, no words."""
    return [
        line
        for line in text.splitlines(keepends=True)
        if not line.lstrip().startswith("//") and not (loaded and _WORD.match(line))
    ]
