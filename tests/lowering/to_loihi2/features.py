"""A network with everything that the target writes, for its tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType, i1, i8, i32
from xdsl.ir import Block, Region

from triton_dsl.dialects import spike, tensor
from triton_dsl.dialects.parameters import store_of
from triton_dsl.dialects.registry import verify_module
from triton_dsl.dialects.shapes import DYNAMIC as FREE
from triton_dsl.dialects.spike import train
from triton_dsl.lowering.ir_builder import Builder

STEPS = 40


def features() -> ModuleOp:
    """Images through a convolution, currents of their own, two thresholds, delays, sums."""
    rng = np.random.default_rng(3)
    image, current = train(FREE, FREE, 2, 5, 6), TensorType(i32, (FREE, FREE, 7))
    block = Block(arg_types=[image, current])
    module = ModuleOp([], sym_name=StringAttr("features"))
    builder = Builder(block, store_of(module))
    add = builder.add

    def weights(key: str, *shape: int, most: int) -> Any:
        return builder.numbers(rng.integers(-most, most + 1, shape), i8, key)

    window: dict[str, Any] = {"strides": (2, 1), "padding": (1, 0, 1, 0), "dilation": (1, 2)}
    seen = add(
        spike.ConvOp(
            add(spike.DelayOp(block.args[0], 1)),
            weights("kernel", 4, 1, 3, 2, most=90),
            groups=2,
            **window,
        )
    )
    bias = builder.numbers(rng.integers(-40, 40, (4, 3, 4)) << 3, i32, "bias")
    edges = add(spike.LoihiLifOp(seen, du=2000, dv=300, bias=bias, threshold=120, reset="subtract"))
    own = add(spike.LoihiLifOp(block.args[1], du=4095, dv=50, bias=-6400, threshold=300))
    late = add(spike.ToTensorOp(add(spike.DelayOp(edges, 3)), i1))
    flat = add(spike.FromTensorOp(add(tensor.ReshapeToOp(late, [-2, -3, -1]))))
    far = add(spike.LinearOp(flat, weights("far", 48, 9, most=100)))
    near = add(spike.LinearOp(add(spike.DelayOp(own, 1)), weights("near", 7, 9, most=120)))
    signed = add(
        spike.LoihiTernaryLifOp(
            add(tensor.AddOp(far, near)),
            du=3000,
            dv=1000,
            gain=4,
            threshold=900,
            threshold_low=-500,
        )
    )
    last = add(spike.LinearOp(add(spike.DelayOp(signed, 1)), weights("last", 9, 5, most=127)))
    out = add(spike.LoihiLifOp(last, du=1000, dv=100, gain=2, threshold=200))
    for value, name in ((edges, "edges"), (own, "own"), (signed, "signed"), (out, "out")):
        value.name_hint = name
    results = [edges, signed, out]
    builder.end(func.ReturnOp(*results))
    types = FunctionType.from_lists([image, current], [value.type for value in results])
    block.args[0].name_hint, block.args[1].name_hint = "image", "current"
    module.body.block.add_op(func.FuncOp("forward", types, Region(block)))
    verify_module(module)
    return module


def inputs(samples: int = 2) -> list[Any]:
    """Random ones."""
    rng = np.random.default_rng(4)
    images = rng.random((STEPS, samples, 2, 5, 6)) < 0.4
    currents = rng.integers(-200, 600, (STEPS, samples, 7)).astype(np.int32)
    return [images, currents]
