"""How the tests of this folder emit, run in LiteRT beside the interpreter, and read files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.options import parse_options
from triton_dsl.lowering.stages import run_stages
from triton_dsl.lowering.to_tflite.engine import run_tflite
from triton_dsl.lowering.to_tflite.target import TFLiteOptions, TFLiteTarget

Array = np.ndarray[Any, Any]


def tflite_bytes(module: ModuleOp, **options: Any) -> bytes:
    """The file as the emitter alone makes it, without any pass and without its own check."""
    given = parse_options(TFLiteOptions, "tflite", {"self_check": False, **options})
    return TFLiteTarget().emit(module, given).files["model.tflite"]


def read(data: bytes) -> Any:
    """The model as objects of the schema."""
    import ai_edge_litert.schema_py_generated as schema

    return schema.ModelT.InitFromPackedBuf(data)


def kinds(data: bytes) -> list[str]:
    """The names of the operators of a file, in order."""
    import ai_edge_litert.schema_py_generated as schema

    names = {number: name for name, number in vars(schema.BuiltinOperator).items()}
    model = read(data)
    codes = [names[code.builtinCode] for code in model.operatorCodes]
    return [codes[op.opcodeIndex] for op in model.subgraphs[0].operators]


@dataclass(frozen=True)
class Bench:
    """What the tests of this folder build, run and compare models with; see `../conftest.py`."""

    build: Callable[..., ModuleOp]
    same: Callable[..., None]
    bytes_of = staticmethod(tflite_bytes)
    run = staticmethod(run_tflite)
    read = staticmethod(read)
    kinds = staticmethod(kinds)

    def check(
        self, module: ModuleOp, inputs: Sequence[Array], scale: float = 1.0, **options: Any
    ) -> bytes:
        """Emit, run in LiteRT and compare with the interpreter; the file's bytes.

        Of the target's stages only the first is run, that decomposes what LiteRT lacks.
        """
        work = module.clone()
        run_stages(work, TFLiteTarget().stages(TFLiteOptions())[:1])
        data = tflite_bytes(work, **options)
        self.same(run_tflite(data, inputs), run_module(module, inputs), scale)
        return data


@pytest.fixture
def bench(build_module: Callable[..., ModuleOp], assert_same: Callable[..., None]) -> Bench:
    """The functions above; a fixture because tests cannot import this file."""
    return Bench(build_module, assert_same)
