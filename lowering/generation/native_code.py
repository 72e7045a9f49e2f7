"""The native code of a language model, compiled by another process and kept.

What compiles takes several times the memory of what runs, and never gives it back: here neither the
IR nor LLVM's compiler is loaded. Not here: what is compiled (`block_code`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, cast

from ...ir.arrays import Array
from ...ir.errors import BackendError, LoweringError, OptionError, ParameterError
from ...ir.progress import doing
from ...runtime.native.abi.attention import Heads
from ...runtime.native.abi.layouts import weights_in
from ...runtime.native.abi.linear import Layout
from ...runtime.native.abi.row_products import RowKind
from ...runtime.native.jit import kept
from ...runtime.native.loading import load_program
from ...runtime.native.memory import Arena
from ...runtime.native.program import NativeProgram
from ...runtime.outside import called
from ..to_native.source_digest import PROGRAM, source_digest

Step = Callable[..., Sequence[Array]]
"""The results of a program with the weights of a layer, for its other inputs."""


@dataclass
class Part:
    """A program without weights.

    Attributes:
        content: see `to_native.callables.program_content`.
        shapes: of its matrices of trits, [ins, outs].
        names: of its other parameters, which are its last arguments.
        program: once it is loaded.
    """

    content: bytes
    shapes: Mapping[str, Sequence[int]]
    names: Sequence[str]
    program: NativeProgram | None = None

    def step(
        self, weights: Mapping[str, Array], held: dict[str, Array], arena: Arena, threads: int
    ) -> Step:
        """The program with the weights of a layer.

        Args:
            weights: by their names in the block, trits as int8 [outs, ins].
            held: what programs hold of these weights, for all programs of the layer.
            arena: where it stands.
            threads: most that run it.
        """

        def hold(name: str) -> Array:
            if name not in held:
                key, layout = name.rsplit(":", 1)
                trits, shape = weights[key], self.shapes[key][::-1]
                if list(trits.shape) != list(shape):
                    raise ParameterError(
                        f"'{key}' has the shape {list(trits.shape)}, expected {list(shape)}"
                    )
                held[name] = arena.hold(weights_in(cast("Layout", layout), trits))
            return held[name]

        if self.program is None:
            self.program = load_program(self.content, threads=threads, held=hold)
        else:
            self.program = self.program.holding(hold)
        program, given = self.program, [weights[name] for name in self.names]
        return lambda *inputs: program.run([*inputs, *given])


def native_code(
    target: str, texts: Sequence[str], heads: Heads, rows: RowKind, *, together: bool
) -> tuple[str, Sequence[Part], bytes, bytes]:
    """The code, from disk where it was compiled before.

    Args:
        target: with its options.
        texts: programs, of which matrices of trits stay outside.
        heads: of the attention.
        rows: what the output head holds.
        together: whether several threads are to share a token out.

    Returns:
        The instruction set, a part for each text, objects with the code of `Attention` and of
        `RowProduct`.

    Raises:
        OptionError: options that the target has not, or not for this processor.
        LoweringError: a program that does not compile.
        BackendError: llvmlite is missing, no second process runs, or its compiler is another.
    """
    given = {"target": target, "texts": texts, "heads": heads, "rows": rows, "together": together}
    asked = hashlib.sha256(json.dumps(given).encode()).hexdigest()
    source = source_digest(*PROGRAM).hex()
    request = json.dumps({**given, "source": source})
    key = f"{source} {version('xdsl')} {asked}"
    found = json.loads(kept(key, lambda: _compiled(request).encode()))
    parts = [Part(b64decode(p["content"]), p["shapes"], p["names"]) for p in found["parts"]]
    return found["recipe"], parts, b64decode(found["attention"]), b64decode(found["rows"])


def _compiled(request: str) -> str:
    """What `block_code` answers."""
    path, module = repr(sys.path), f"{__package__}.block_code"
    program = f"import sys; sys.path[:] = {path}; from {module} import main; main()"
    with doing("Compiling in another process"):
        told = called([sys.executable, "-c", program], given=request)
    if told.returncode:
        last = (told.stderr.strip() or "nothing said").splitlines()[-1]
        raise BackendError(f"what compiles ended with {told.returncode}: {last}")
    answer: dict[str, Any] = json.loads(told.stdout)
    if "error" in answer:
        raise (OptionError if answer["option"] else LoweringError)(answer["error"])
    if answer.get("another"):
        raise BackendError("the compiler's files changed after this process began: start it anew")
    return told.stdout
