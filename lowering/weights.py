"""Weights from a file or a `state_dict` into a module's parameter store, checked against the IR.

Accepted files: safetensors, NumPy `.npz`, PyTorch `.pt`/`.pth` (tensors only, never pickled code).
A ternary parameter takes packed bytes (`ir.trits`) or an array of its logical shape with values in
{-1, 0, 1}. A matrix may be a sparse one of SciPy or PyTorch, which stays so (`ir.sparse_matrix`).
Everything that does not fit is reported in one error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp

from ..dialects import ternary
from ..dialects.elements import holds_nan, numpy_dtype
from ..dialects.inference import tensor_type
from ..dialects.parameters import ParameterLike, attach_store, parameters, store_of
from ..ir.arrays import Array
from ..ir.errors import BackendError, ParameterError, first_line
from ..ir.extras import install
from ..ir.numpy_file import check_archive, read_numpy
from ..ir.sparse_matrix import Sparse, SparseMatrix, part_names, sparse_parts
from ..ir.store import ParameterStore, read_arrays
from ..ir.trits import check_packed, pack_trits, packed_size

if TYPE_CHECKING:
    from torch import Tensor


StateDict = Mapping[str, ArrayLike | Sparse]
"""Tensors, arrays or sparse matrices by name, such as the `state_dict` of an `nn.Module`."""

Weights = Path | StateDict
"""A weights file, or what would be in it."""


def load_weights(path: Path, *, largest: int | None = None) -> dict[str, Array]:
    """Every array of a weights file.

    Args:
        path: the file.
        largest: the most elements that an array may have. Archives are compressed: a small one can
            unpack to more than the memory holds.

    Raises:
        ParameterError: no such file, an unknown kind of file, or broken content.
    """
    suffix = path.suffix.lower()
    if not path.is_file():
        reason = "Is a directory" if path.is_dir() else "no such file"
        raise ParameterError(f"weights file '{path}': {reason}")
    if suffix == ".safetensors":
        return read_arrays(path)
    if suffix == ".npz":
        return read_numpy(path, f"weights file '{path}'", largest=largest)
    if suffix in (".pt", ".pth"):
        return _load_torch(path)
    raise ParameterError(
        f"weights file '{path}': unknown kind '{suffix}'; expected .safetensors, .npz, .pt or .pth"
    )


def _load_torch(path: Path) -> dict[str, Array]:
    from pickle import UnpicklingError
    from zipfile import BadZipFile, is_zipfile

    what = f"weights file '{path}'"

    try:
        import torch
    except ImportError:
        raise BackendError(f"reading '{path}' needs PyTorch: {install('torch')}") from None
    try:
        if is_zipfile(path):
            check_archive(path, what)
        state: object = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        # PyTorch's own text advises to load it all the same, and to run what it names.
        refused = re.search(r"GLOBAL ([\w.]+)", str(error))
        names = f" ('{refused[1]}')" if refused else ""
        raise ParameterError(
            f"{what} holds no plain tensors: other Python objects{names} are in it, which could "
            "run code. Save the tensors alone: torch.save(model.state_dict(), …), or safetensors"
        ) from None
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, BadZipFile) as error:
        reason = first_line(error)
        raise ParameterError(f"{what} holds no plain tensors: {reason}") from None
    return _entries(state, str(path))


def as_arrays(state: object, what: str) -> dict[str, Array]:
    """A mapping of tensors or arrays (a `state_dict`) as NumPy arrays."""
    if not isinstance(state, Mapping):
        raise ParameterError(f"{what}: expected a mapping of names to tensors")
    arrays: dict[str, Array] = {}
    for name, value in cast("Mapping[str, ArrayLike]", state).items():
        if hasattr(value, "detach"):
            try:
                value = _torch_array(cast("Tensor", value).detach())
            except (TypeError, RuntimeError) as error:
                reason = first_line(error)
                raise ParameterError(f"{what}: '{name}' is no plain tensor: {reason}") from None
        arrays[str(name)] = np.asarray(value)
    return arrays


def _entries(state: object, what: str) -> dict[str, Array]:
    """`as_arrays`, with three arrays for each sparse matrix (`ir.sparse_matrix`)."""
    arrays: dict[str, Array] = {}
    rest: dict[str, object] = {}
    if not isinstance(state, Mapping):
        return as_arrays(state, what)
    for name, value in cast("Mapping[str, object]", state).items():
        parts = sparse_parts(value)
        if parts is None:
            rest[name] = value
        else:
            arrays |= zip(part_names(str(name)), parts, strict=True)
    return arrays | as_arrays(rest, what)


def _torch_array(tensor: Tensor) -> Array:
    if str(tensor.dtype) == "torch.bfloat16":
        import ml_dtypes
        import torch

        return tensor.cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.cpu().numpy()


def attach_weights(module: ModuleOp, weights: Weights) -> None:
    """Fill the module's parameters from a file or a `state_dict`.

    A safetensors file whose entries already have the stored form is referenced, not copied.
    Entries that the module itself added (constants) stay.

    Raises:
        ParameterError: lists every missing, extra and unfit entry.
    """
    if isinstance(weights, Path):
        sizes = [prod(tensor_type(op.result).get_shape()) for op in parameters(module)]
        arrays = load_weights(weights, largest=max(sizes, default=0))
        source = f"weights file '{weights}'"
    else:
        arrays, source = _entries(weights, "weights"), "weights"
    own = set(store_of(module).added_names)
    wanted = {
        op.key.data: op
        for op in parameters(module)
        if own.isdisjoint([op.key.data, *part_names(op.key.data)])
    }
    parts = {key: part_names(key) for key in wanted}
    sparse = {key for key, names in parts.items() if all(name in arrays for name in names)}
    problems = [f"missing '{key}' ({op.result.type})" for key, op in wanted.items()
                if key not in arrays and key not in sparse]  # fmt: skip
    known = {*wanted, *(name for key in sparse for name in parts[key])}
    problems += [
        f"extra '{key}'"
        for key in arrays
        if key not in known and not key.endswith("num_batches_tracked")
    ]
    stored: dict[str, Array] = {}
    for key, op in wanted.items():
        try:
            if key in sparse:
                entries = {name: arrays[name] for name in parts[key]}
                _check_sparse(op, entries)
                stored |= entries
            elif key in arrays:
                stored[key] = _stored_form(op, arrays[key])
        except ParameterError as error:
            problems.append(str(error))
    if problems:
        shown = [*problems[:20], *(["…"] if len(problems) > 20 else [])]
        raise ParameterError(f"{source} does not fit the model:\n  " + "\n  ".join(shown))
    unchanged = all(stored[key] is arrays[key] for key in stored)
    in_place = isinstance(weights, Path) and weights.suffix.lower() == ".safetensors" and unchanged
    if in_place:
        assert isinstance(weights, Path)
        store = ParameterStore.open(weights)
        for key in own:
            if store.add(key, store_of(module).read(key)) != key:
                raise ParameterError(f"{source}: entry '{key}' clashes with a constant")
    else:
        old = store_of(module)
        store = ParameterStore.of({**stored, **{key: old.read(key) for key in own}})
    attach_store(module, store)


def _check_sparse(op: ParameterLike, entries: dict[str, Array]) -> None:
    """Check the parts of a sparse matrix against the IR."""
    key, type = op.key.data, tensor_type(op.result)
    matrix = SparseMatrix.read(ParameterStore.of(entries), key, type.get_shape())
    if matrix is None:
        raise ParameterError(f"'{key}': expected {type}, got a sparse matrix")
    data, trits = matrix.data, isinstance(op, ternary.ParameterOp)
    dtype = np.dtype(np.int8) if trits else numpy_dtype(type.element_type)
    if data.dtype != dtype:
        raise ParameterError(f"'{key}': expected numbers of {dtype}, got {data.dtype}")
    if trits and data.size and (data.min() < -1 or data.max() > 1):
        raise ParameterError(f"'{key}': expected trits in {{-1, 0, 1}}, got others")


def _stored_form(op: ParameterLike, array: Array) -> Array:
    key, type = op.key.data, tensor_type(op.result)
    shape = type.get_shape()
    if isinstance(op, ternary.ParameterOp):
        if array.dtype == np.uint8 and array.shape == (packed_size(shape),):
            try:
                check_packed(array, shape)
            except ParameterError as error:
                raise ParameterError(f"'{key}': {error}") from None
            return array
        if array.shape != shape:
            raise ParameterError(
                f"'{key}': expected trits of shape {list(shape)} or {packed_size(shape)} packed "
                f"bytes, got {array.dtype}{list(array.shape)}"
            )
        try:
            return pack_trits(array)
        except ParameterError as error:
            raise ParameterError(f"'{key}': {error}") from None
    dtype = numpy_dtype(type.element_type)
    if array.shape != shape or array.dtype != dtype:
        raise ParameterError(
            f"'{key}': expected {dtype}{list(shape)}, got {array.dtype}{list(array.shape)}"
        )
    if holds_nan(array):
        raise ParameterError(f"'{key}': holds NaN")
    return array
