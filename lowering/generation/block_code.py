"""Compiles what `native_code` wants, as a program of its own: JSON in, JSON out.

Not here: who keeps the code and runs it.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from typing import Any

from ...dialects.inference import tensor_type
from ...dialects.parameters import parameters
from ...dialects.registry import triton_context
from ...ir.errors import OptionError, TritonError
from ...ir.interpreter import entry_function
from ...ir.value_names import argument_names
from ...passes.expose_parameters import ExposeParametersPass
from ...runtime.native.abi.attention import Heads
from ..from_tri import import_tri
from ..options import parse_options, parse_target_spec
from ..to_native.callables import attention, program_content, row_products
from ..to_native.source_digest import PROGRAM, source_digest
from ..to_native.target import NativeOptions


def main() -> None:
    """Answer the request on the standard input."""
    print(answer(sys.stdin.read()))


def answer(asked: str) -> str:
    """What becomes of a request."""
    request = json.loads(asked)
    try:
        same = source_digest(*PROGRAM).hex() == request["source"]
        told = _compiled(request) if same else {"another": True}
    except TritonError as error:
        told = {"error": str(error), "option": isinstance(error, OptionError)}
    return json.dumps(told)


def _compiled(request: dict[str, Any]) -> dict[str, Any]:
    given = {"outside": True, "kept": False, **parse_target_spec(request["target"]).options}
    options = parse_options(NativeOptions, "native", given)
    recipe = options.kernels()
    return {
        "recipe": recipe.name,
        "parts": [_part(text, options, request["together"]) for text in request["texts"]],
        "attention": _text(attention(recipe, Heads(*request["heads"]))),
        "rows": _text(row_products(recipe, request["rows"])),
    }


def _part(text: str, options: NativeOptions, together: bool) -> dict[str, Any]:
    module = import_tri(text)
    for op in list(parameters(module)):
        if not op.result.uses.get_length():
            op.detach()
            op.erase()
    shapes = {op.key.data: tensor_type(op.result).get_shape() for op in parameters(module)}
    inputs = len(entry_function(module, "forward").args)
    ExposeParametersPass().apply(triton_context(), module)
    names = argument_names(entry_function(module, "forward"))[inputs:]
    content = program_content(module, options, together=together)
    return {"content": _text(content), "shapes": shapes, "names": names}


def _text(content: bytes) -> str:
    return b64encode(content).decode()
