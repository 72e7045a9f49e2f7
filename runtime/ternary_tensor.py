"""`TernaryTensor`, and products of ternary matrices.

Not here: how trits are packed (`runtime.packing`), how floats become trits
(`runtime.quantization`), layers (`runtime.layers`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from typing_extensions import TypeIs

from ..ir.errors import OptionError, ParameterError
from ..ir.safe_write import PendingFiles
from .native.bitplanes import BitplaneKernels, PackedColumns, bitplane_matmul
from .native.provider import BITPLANES
from .native.threads import default_threads
from .packing import check_packed, pack, pack_unchecked, unpack_unchecked
from .quantization import ternarize, ternary_scale
from .tensor_file import read_tensor_file
from .ternary_operand import TernaryOperand, check_trits, promised

PRINTED = 64
"""`repr` shows the values of tensors of at most this many elements."""

_WORTH_PACKING = 1 << 20
"""Steps of a product of trits from which the bits of both sides are worth sorting."""


class TernaryTensor:
    """A tensor of trits, packed four to a byte, with an optional scale for all of them.

    `TernaryTensor(weights)` ternarizes floats as `ternarize` does, and takes integers in {-1, 0, 1}
    as they are. Values never change: each operation gives a new tensor. `==` compares shape,
    values and scale, and gives one bool; hence instances cannot be hashed. Pickled and copied
    instances hold the bytes, and are checked when they are restored.

    Args:
        values: floats, or integers in {-1, 0, 1}.
        threshold: magnitudes up to it become 0; by default that of the rule.
        rule: `twn` (default), `absmean` or `fixed`, see `runtime.quantization.ternarize`.
        scaled: keep the least-squares scale, so that `to_float` is near the floats given.

    Raises:
        ParameterError: integers outside {-1, 0, 1}, NaN or infinity.
        OptionError: other arguments with integers, or a wrong rule or threshold.
    """

    __slots__ = ("_operands", "_packed", "_scale", "_shape")
    __hash__: ClassVar[None]  # pyright: ignore[reportIncompatibleMethodOverride]

    _operands: dict[bool, TernaryOperand]
    _packed: Tensor
    _scale: Tensor | None
    _shape: torch.Size

    def __init__(
        self,
        values: Tensor,
        threshold: float | None = None,
        *,
        rule: str | None = None,
        scaled: bool = False,
    ) -> None:
        values = values.detach()
        if not values.is_floating_point():
            if threshold is not None or rule is not None or scaled:
                raise OptionError("integers are taken as trits: give floats, or no other argument")
            trits, scale = values, None
        else:
            if not bool(values.isfinite().all()):
                raise ParameterError("expected finite floats to ternarize, got NaN or infinity")
            trits = ternarize(values, threshold, rule=rule)
            scale = ternary_scale(values, trits) if scaled else None
        self._packed, self._shape, self._scale = pack(trits), values.shape, scale
        self._operands = {}

    @classmethod
    def from_packed(
        cls, packed: Tensor, shape: Sequence[int], scale: Tensor | None = None
    ) -> TernaryTensor:
        """The tensor whose bytes are `packed`; a copy.

        Raises:
            ParameterError: see `unpack`; or a scale that is no single float.
        """
        check_packed(packed, shape)
        if scale is not None and (scale.dim() or not scale.is_floating_point()):
            raise ParameterError(f"expected one float as scale, got {scale.dtype}")
        return cls._of(
            packed.detach().clone(),
            torch.Size(shape),
            None if scale is None else scale.detach().to(packed.device, copy=True),
        )

    @classmethod
    def _of(cls, packed: Tensor, shape: torch.Size, scale: Tensor | None) -> TernaryTensor:
        tensor = cls.__new__(cls)
        tensor._packed, tensor._shape, tensor._scale = packed, shape, scale
        tensor._operands = {}
        return tensor

    @property
    def shape(self) -> torch.Size:
        """The logical shape."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def device(self) -> torch.device:
        """Where the bytes are."""
        return self._packed.device

    @property
    def packed(self) -> Tensor:
        """The bytes, `uint8[packed_size(shape)]`, not copied: do not write to them."""
        return self._packed

    @property
    def scale(self) -> Tensor | None:
        """The factor of all elements, a float scalar, if there is one."""
        return self._scale

    @property
    def nbytes(self) -> int:
        """The number of packed bytes."""
        return self._packed.numel()

    def numel(self) -> int:
        """The number of elements."""
        return self._shape.numel()

    def dim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    def to_trits(self) -> Tensor:
        """The values as int8 in {-1, 0, 1}, without the scale."""
        return unpack_unchecked(self._packed, self._shape, torch.int8)

    def to_float(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The values as floats, times the scale if there is one."""
        floats = unpack_unchecked(self._packed, self._shape, dtype)
        return floats if self._scale is None else floats * self._scale.to(dtype)

    def to(self, device: torch.device | str) -> TernaryTensor:
        """The same tensor on another device."""
        scale = None if self._scale is None else self._scale.to(device)
        return self._of(self._packed.to(device), self._shape, scale)

    def cpu(self) -> TernaryTensor:
        """The same tensor in main memory."""
        return self.to("cpu")

    def cuda(self, device: torch.device | str = "cuda") -> TernaryTensor:
        """The same tensor on a GPU."""
        return self.to(device)

    def save(self, path: str | Path) -> None:
        """Write a safetensors file with the entries `packed` and perhaps `scale`.

        Raises:
            OSError: the file cannot be written; nothing is left behind.
        """
        from safetensors.torch import save

        entries = {"packed": self._packed.cpu()}
        if self._scale is not None:
            entries["scale"] = self._scale.cpu()
        content = save(entries, {"shape": json.dumps(list(self._shape))})
        with PendingFiles() as pending:
            pending.add(Path(path), content)

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str = "cpu") -> TernaryTensor:
        """Read what `save` wrote. No code in the file is run.

        Raises:
            ParameterError: the file is missing, or not what `save` writes.
        """
        entries, shape = read_tensor_file(path, "ternary tensor", "shape", device)
        sizes: list[Any] = cast(list[Any], shape) if isinstance(shape, list) else [None]
        is_whole = {"packed"} <= set(entries) <= {"packed", "scale"}
        if not is_whole or any(type(size) is not int for size in sizes):
            raise ParameterError(f"'{path}' holds no ternary tensor: expected a shape and 'packed'")
        try:
            return cls.from_packed(entries["packed"], sizes, entries.get("scale"))
        except ParameterError as error:
            raise ParameterError(f"ternary tensor '{path}': {error}") from None

    def operand(self, *, transposed: bool = False) -> TernaryOperand:
        """This matrix, or its transpose, as the right side of products; made once, on first use."""
        known = self._operands.get(transposed)
        if known is not None:
            return known
        if transposed:
            operand = TernaryOperand.of(self.to_trits().T)
        else:
            operand = TernaryOperand(self._packed, (self._shape[0], self._shape[1]))
        # What a compiler traces are no bytes to keep.
        if type(operand.packed) is Tensor and not torch.compiler.is_compiling():
            self._operands[transposed] = operand
        return operand

    def __getitem__(self, index: Any) -> TernaryTensor:
        chosen = self.to_trits()[index]
        return self._of(pack_unchecked(chosen), chosen.shape, self._scale)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a tensor without axes")
        return self._shape[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TernaryTensor):
            return NotImplemented
        if self._shape != other._shape or (self._scale is None) != (other._scale is None):
            return False
        if not torch.equal(self._packed, other._packed.to(self.device)):
            return False
        if self._scale is None or other._scale is None:
            return True
        return torch.equal(self._scale.cpu(), other._scale.cpu())

    def __matmul__(self, other: Tensor | TernaryTensor) -> Tensor:
        return ternary_matmul(self, other)

    def __rmatmul__(self, other: Tensor) -> Tensor:
        return ternary_matmul(other, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return (TernaryTensor.from_packed, (self._packed, tuple(self._shape), self._scale))

    def __repr__(self) -> str:
        parts = [f"shape={tuple(self._shape)}", f"{self.nbytes} bytes"]
        if self.numel() <= PRINTED and self.device.type != "meta":
            parts.insert(0, str(cast(Any, self.to_trits()).tolist()))
        if self._scale is not None:
            is_known = self.device.type != "meta"
            parts.append(f"scale={self._scale.item():g}" if is_known else "scale=…")
        return f"TernaryTensor({', '.join(parts)}, device='{self.device}')"


def ternary_matmul(
    a: Tensor | TernaryTensor,
    b: Tensor | TernaryTensor,
    a_ternary: bool = False,
    b_ternary: bool = False,
) -> Tensor:
    """a · b as `torch.matmul` multiplies, where one or both are ternary; floats.

    Where one matrix is ternary, native kernels read its packed form, as `operators.ternary_linear`
    does, without the rows that are all zero; it is made at the first product, and kept as long as
    the tensor and its bytes. Where both are, sums are exact below 2^24 steps: large matrices in
    main memory are multiplied bit by bit, by native kernels where llvmlite is installed; else in
    float32, without the steps at which a column of `a` or a row of `b` is all zero.

    Args:
        a: float `[..., M, K]`, or a `TernaryTensor`, whose scale is applied.
        b: float `[..., K, N]`, or a `TernaryTensor`, whose scale is applied.
        a_ternary: `a` is promised to hold trits; checked. A `TernaryTensor` needs no promise.
        b_ternary: the same for `b`.

    Raises:
        ParameterError: an operand that is no tensor, or is said to be ternary and is not.
    """
    a_is_ternary = a_ternary or isinstance(a, TernaryTensor)
    b_is_ternary = b_ternary or isinstance(b, TernaryTensor)
    if a_is_ternary != b_is_ternary:
        left, right = _dense(a, "a"), _dense(b, "b")
        if b_is_ternary and (operand := _operand(b, "b", left)) is not None:
            return _scaled(operand.multiply(_floats(left)), b)
        if a_is_ternary and (operand := _operand(a, "a", right, transposed=True)) is not None:
            columns = right if right.dim() == 1 else right.mT
            product = operand.multiply(_floats(columns))
            return _scaled(product if right.dim() == 1 else product.mT, a)
    a_values, b_values = _values(a, a_ternary, "a"), _values(b, b_ternary, "b")
    dtype = torch.promote_types(a_values.dtype, b_values.dtype)
    dtype = dtype if dtype.is_floating_point else torch.float32
    if a_is_ternary and b_is_ternary:
        exact = torch.promote_types(dtype, torch.float32)
        product = _both_ternary(a_values.to(exact), b_values.to(exact)).to(dtype)
    else:
        product = torch.matmul(a_values.to(dtype), b_values.to(dtype))
    return _scaled(_scaled(product, a), b)


def _operand(
    matrix: Tensor | TernaryTensor, name: str, other: Tensor, *, transposed: bool = False
) -> TernaryOperand | None:
    """The packed form of a ternary matrix for a product with `other`; `None` where PyTorch's own
    product does better or is needed: other ranks, float64, types that differ, gradients of the
    matrix, and tensors that say they are ternary on other devices.
    """
    rank, steps = matrix.dim(), matrix.shape[0 if not transposed else -1] if matrix.dim() else 0
    axis = -2 if transposed and other.dim() > 1 else -1
    if rank != 2 or not other.dim() or other.shape[axis] != steps or not steps:
        return None
    if other.dtype == torch.float64 or other.dtype.is_complex:
        return None
    if isinstance(matrix, TernaryTensor):
        return matrix.operand(transposed=transposed) if matrix.device == other.device else None
    is_simple = _is_plain(matrix) and matrix.is_contiguous() and not matrix.requires_grad
    if transposed or not is_simple or torch.promote_types(matrix.dtype, other.dtype) != other.dtype:
        return None
    return promised(matrix, name)


def _floats(values: Tensor) -> Tensor:
    return values if values.is_floating_point() else values.to(torch.float32)


def _scaled(product: Tensor, operand: Tensor | TernaryTensor) -> Tensor:
    scale = operand.scale if isinstance(operand, TernaryTensor) else None
    return product if scale is None else product * scale.to(product.dtype)


def _dense(operand: Tensor | TernaryTensor, name: str) -> Any:
    """The operand itself; a `TernaryTensor` is read where it is needed."""
    if not isinstance(operand, TernaryTensor) and not _is_tensor(operand):
        raise ParameterError(
            f"operand {name} is of type {type(operand).__name__}; ternary_matmul takes tensors of "
            "PyTorch and TernaryTensor"
        )
    return operand


def _values(operand: Tensor | TernaryTensor, ternary: bool, name: str) -> Tensor:
    if isinstance(operand, TernaryTensor):
        return operand.to_trits()
    values: Tensor = _dense(operand, name)
    if ternary:
        check_trits(values, name)
    return values


def _is_tensor(value: object) -> TypeIs[Tensor]:
    return isinstance(value, Tensor)


def _both_ternary(a: Tensor, b: Tensor) -> Tensor:
    # A step that adds nothing to the product can still have a gradient.
    is_differentiated = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    if is_differentiated or not a.dim() == b.dim() == 2 or a.shape[1] != b.shape[0]:
        return torch.matmul(a, b)
    if a.shape[0] * b.numel() >= _WORTH_PACKING and _is_plain(a) and _is_plain(b):
        kernels = BITPLANES.get()
        if kernels is not None:
            return _by_bitplanes(a, b, kernels).to(a.dtype)
    used = (a != 0).any(dim=0) & (b != 0).any(dim=1)
    steps = used.nonzero().flatten()
    if len(steps) < a.shape[1]:
        a, b = a.index_select(1, steps), b.index_select(0, steps)
    return torch.matmul(a, b)


def _is_plain(values: Tensor) -> bool:
    """Whether these are numbers in main memory, which other libraries may read."""
    return type(values) is Tensor and values.is_cpu and not torch.compiler.is_compiling()


def _by_bitplanes(a: Tensor, b: Tensor, kernels: BitplaneKernels) -> Tensor:
    columns = PackedColumns(b.detach().to(torch.int8).numpy(), kernels, check=False)
    rows = a.detach().to(torch.int8).numpy()
    product = bitplane_matmul(rows, columns, threads=default_threads(), check=False)
    return torch.from_numpy(product)
