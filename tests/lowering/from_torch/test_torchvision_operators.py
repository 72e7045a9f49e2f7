"""Operators of torchvision's library, as ONNX Runtime computes those of the same meaning."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import helper
from torch import Tensor, nn

from triton_dsl.dialects.interpret import run_module
from triton_dsl.lowering.engine import run_target
from triton_dsl.lowering.from_torch import from_torch


def computed(operator: str, operands: Sequence[Tensor], **attributes: Any) -> Tensor:
    """The result of one ONNX operator."""
    names = [f"x{i}" for i in range(len(operands))]
    types = {torch.float32: 1, torch.int64: 7}
    inputs = [
        helper.make_tensor_value_info(name, types[value.dtype], list(value.shape))
        for name, value in zip(names, operands, strict=True)
    ]
    node = helper.make_node(operator, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feed = {name: value.numpy() for name, value in zip(names, operands, strict=True)}
    return torch.from_numpy(session.run(None, feed)[0])


def roi_align(
    x: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool
) -> Tensor:
    return computed(
        "RoiAlign", [x, rois[:, 1:], rois[:, 0].long()], spatial_scale=scale,
        output_height=height, output_width=width, sampling_ratio=ratio,
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )  # fmt: skip


def deform_conv2d(
    x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *numbers: Any
) -> Tensor:
    stride, pad, dilation = (list(numbers[i : i + 2]) for i in (0, 2, 4))
    operands = [x, weight, offset, bias, *([mask] if numbers[8] else [])]
    return computed(
        "DeformConv", operands, strides=stride, pads=pad * 2, dilations=dilation,
        group=numbers[6], offset_group=numbers[7], kernel_shape=list(weight.shape[2:]),
    )  # fmt: skip


def deformed_shape(x: Tensor, weight: Tensor, offset: Tensor, *rest: Any) -> Tensor:
    return x.new_empty((x.shape[0], weight.shape[0], *offset.shape[2:]))


def aligned_shape(x: Tensor, rois: Tensor, scale: float, *sizes: Any) -> Tensor:
    return x.new_empty((rois.shape[0], x.shape[1], *sizes[:2]))


SCHEMAS: Mapping[str, tuple[str, Any, Any]] = {
    "roi_align": (
        "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,"
        " SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
        roi_align,
        aligned_shape,
    ),
    "deform_conv2d": (
        "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h,"
        " SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w,"
        " SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
        deform_conv2d,
        deformed_shape,
    ),
}


@pytest.fixture
def library() -> Generator[Any]:
    """The operators as torchvision 0.29 declares them."""
    with torch.library._scoped_library("torchvision", "FRAGMENT") as made:  # pyright: ignore
        for name, (schema, function, shape) in SCHEMAS.items():
            made.define(name + schema)
            made.impl(name, function, "CPU")
            torch.library.register_fake(f"torchvision::{name}", shape, lib=made)
        yield torch.ops.torchvision


def check(module: nn.Module, program: Any, inputs: Sequence[Tensor]) -> None:
    wanted = module(*inputs).detach().numpy()
    arrays = [value.numpy() for value in inputs]
    for found in (run_module(program, arrays), run_target(program, "onnx", arrays)[1]):
        np.testing.assert_allclose(found[0], wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("aligned", [False, True])
def test_regions(library: Any, aligned: bool) -> None:
    class Head(nn.Module):
        def forward(self, x: Tensor, rois: Tensor) -> Tensor:
            return library.roi_align(x, rois, 0.5, 3, 2, 2, aligned)

    x = torch.randn(2, 3, 9, 11)
    rois = torch.tensor([[0, 1.0, 2, 9, 15], [1, -4, 3, 30, 8], [1, 5, 5, 5.5, 6], [0, 0, 0, 4, 4]])
    program = from_torch(Head(), (x, rois), dynamic={"x": {0: "N"}, "rois": {0: "R"}})
    check(Head(), program, (x, rois))
    check(Head(), program, (x, rois[1:]))


@pytest.mark.parametrize("masked", [False, True])
def test_deformed_windows(library: Any, masked: bool) -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.offset = nn.Conv2d(4, 12, 3, (2, 1), 1)
            self.weight = nn.Parameter(torch.randn(6, 2, 3, 2))
            self.bias = nn.Parameter(torch.randn(6))

        def forward(self, x: Tensor) -> Tensor:
            offset = self.offset(x) * 4
            mask = offset[:, ::2].sigmoid() if masked else offset.new_zeros((1, 1))
            sizes = (2, 1, 1, 1, 1, 2, 2, 1)  # strides, pads, dilations, groups, parts
            return library.deform_conv2d(x, self.weight, offset, mask, self.bias, *sizes, masked)

    module, x = Layer(), torch.randn(2, 4, 9, 8)
    with torch.no_grad():
        program = from_torch(module, x)
        check(module, program, [torch.randn(3, 4, 9, 8)])
