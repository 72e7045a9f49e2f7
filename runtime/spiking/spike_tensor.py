"""`SpikeTensor`: recorded spikes [batch, time, channels, height, width], dense or as events.

A network runs on float trains [T, batch, …]; `from_train` and `to_train` go between the two.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from ...ir.errors import OptionError, ParameterError
from ...ir.safe_write import PendingFiles
from ..tensor_file import read_tensor_file
from .spike_storage import AXES, check_dt, check_shape, event_at, pack, strides, text_of, unpack

LAYOUTS = ("dense", "sparse")

DEFAULT_DT = 1e-3
"""A millisecond, the length of a step where none is given."""


class SpikeTensor:
    """Binary spikes on five axes, with the length of a step and facts about the recording.

    Stored `dense`, a byte a place, or `sparse`, eight bytes a spike: the row-major indices of the
    spikes in order. Both hold the same, and going between them loses nothing. Values never change:
    each operation gives a new tensor, perhaps of the same storage. `==` compares shape, spikes, dt
    and metadata, whatever the layout and device, and gives one bool; hence instances cannot be
    hashed.

    Args:
        data: truth values, or numbers that are 0 or 1, [batch, time, channels, height, width].
        dt: seconds a step, above 0.
        metadata: facts by name, as JSON has them; copied.
        timesteps: the steps that `data` is promised to have; checked.

    Raises:
        ParameterError: another rank or number of steps, or values other than 0 and 1.
        OptionError: wrong dt or metadata.
    """

    __slots__ = ("_dt", "_metadata", "_shape", "_stored")
    __hash__: ClassVar[None]  # pyright: ignore[reportIncompatibleMethodOverride]

    _stored: Tensor
    _shape: torch.Size
    _dt: float
    _metadata: str

    def __init__(
        self,
        data: Tensor,
        dt: float = DEFAULT_DT,
        metadata: Mapping[str, Any] | None = None,
        *,
        timesteps: int | None = None,
    ) -> None:
        if data.dim() != len(AXES):
            raise ParameterError(f"expected [{', '.join(AXES)}], got shape {list(data.shape)}")
        if timesteps is not None and timesteps != data.shape[1]:
            raise ParameterError(f"expected {timesteps} steps, got shape {list(data.shape)}")
        data = data.detach()
        if data.dtype != torch.bool:
            outside = (data != 0) & (data != 1)
            if bool(outside.any()):
                value = data[outside][0].item()
                raise ParameterError(f"expected spikes as 0 and 1, got {value}")
            stored = data != 0
        else:
            stored = data.clone()
        self._stored, self._shape = stored.contiguous(), data.shape
        self._dt, self._metadata = check_dt(dt), text_of(metadata)

    @classmethod
    def from_events(
        cls,
        events: Tensor,
        shape: Sequence[int],
        dt: float = DEFAULT_DT,
        metadata: Mapping[str, Any] | None = None,
    ) -> SpikeTensor:
        """A sparse tensor of `shape` with a spike at each row of `events`, in any order.

        Args:
            events: integers [spikes, 5]: batch, step, channel, row and column.
            shape: the five sizes.
            dt: seconds a step.
            metadata: facts by name.

        Raises:
            ParameterError: events of another shape or type, outside of `shape`, or twice the same.
            OptionError: wrong dt or metadata.
        """
        sizes = check_shape(shape)
        is_integer = not (events.is_floating_point() or events.is_complex())
        if events.dim() != 2 or events.shape[1] != len(AXES) or not is_integer:
            raise ParameterError(
                f"expected integer events [spikes, {len(AXES)}], "
                f"got {events.dtype}{list(events.shape)}"
            )
        places = events.detach().to(torch.int64)
        limits = torch.tensor(sizes, device=places.device)
        outside = ((places < 0) | (places >= limits)).any(1)
        if bool(outside.any()):
            event = cast(list[int], places[outside][0].tolist())
            raise ParameterError(f"event {event} is outside of the shape {list(sizes)}")
        apart = torch.tensor(strides(sizes), dtype=torch.int64, device=places.device)
        indices = (places * apart).sum(1).sort().values
        return cls._sparse(indices, sizes, check_dt(dt), text_of(metadata))

    @classmethod
    def from_train(
        cls, train: Tensor, dt: float = DEFAULT_DT, metadata: Mapping[str, Any] | None = None
    ) -> SpikeTensor:
        """The train [T, N], [T, N, C], [T, N, C, H] or [T, N, C, H, W]; missing sizes are 1.

        Raises:
            ParameterError: another rank, or values other than 0 and 1.
            OptionError: wrong dt or metadata.
        """
        if not 2 <= train.dim() <= len(AXES):
            raise ParameterError(f"expected a train [T, N, …] of rank 2 to 5, got {train.dim()}")
        whole = train.reshape(*train.shape, *[1] * (len(AXES) - train.dim()))
        return cls(whole.transpose(0, 1), dt, metadata)

    @classmethod
    def _sparse(cls, indices: Tensor, shape: torch.Size, dt: float, metadata: str) -> SpikeTensor:
        twice = indices[1:] == indices[:-1]
        if bool(twice.any()):
            event = event_at(int(indices[1:][twice][0]), shape)
            raise ParameterError(f"two events at {event}; a step holds one spike a place")
        return cls._of(indices, shape, dt, metadata)

    @classmethod
    def _of(cls, stored: Tensor, shape: torch.Size, dt: float, metadata: str) -> SpikeTensor:
        tensor = cls.__new__(cls)
        tensor._stored, tensor._shape, tensor._dt, tensor._metadata = stored, shape, dt, metadata
        return tensor

    def _like(self, stored: Tensor, shape: torch.Size | None = None) -> SpikeTensor:
        return self._of(stored, self._shape if shape is None else shape, self._dt, self._metadata)

    @property
    def data(self) -> Tensor:
        """The spikes as truth values in the shape; of a dense tensor not copied: do not write."""
        if self.layout == "dense":
            return self._stored
        data = torch.zeros(self._shape.numel(), dtype=torch.bool, device=self.device)
        data[self._stored] = True
        return data.reshape(self._shape)

    @property
    def events(self) -> Tensor:
        """Where the spikes are: int64 [spikes, 5], ordered by batch, step, channel, row, column."""
        places = torch.unravel_index(self._indices(), self._shape)
        return torch.stack(places, 1)

    @property
    def layout(self) -> str:
        """`dense` or `sparse`."""
        return "dense" if self._stored.dtype == torch.bool else "sparse"

    @property
    def shape(self) -> torch.Size:
        """[batch, time, channels, height, width]."""
        return self._shape

    @property
    def timesteps(self) -> int:
        """The number of steps."""
        return self._shape[1]

    @property
    def dt(self) -> float:
        """Seconds a step."""
        return self._dt

    @property
    def duration(self) -> float:
        """Seconds in all."""
        return self.timesteps * self._dt

    @property
    def metadata(self) -> dict[str, Any]:
        """Facts by name; a copy."""
        return json.loads(self._metadata)

    @property
    def device(self) -> torch.device:
        """Where the spikes are."""
        return self._stored.device

    @property
    def nbytes(self) -> int:
        """The bytes that the spikes take."""
        return self._stored.numel() * self._stored.element_size()

    def to_dense(self) -> SpikeTensor:
        """The same tensor, stored densely."""
        return self._like(self.data)

    def to_sparse(self) -> SpikeTensor:
        """The same tensor, stored as events."""
        return self._like(self._indices())

    def to_train(self, rank: int = 5, dtype: torch.dtype = torch.float32) -> Tensor:
        """The train [T, N, …] of `rank` axes, zeros and ones of `dtype`.

        Raises:
            OptionError: an axis that is left out has another size than 1.
        """
        if not 2 <= rank <= len(AXES) or any(size != 1 for size in self._shape[rank:]):
            raise OptionError(
                f"expected a rank from 2 to 5 that leaves out sizes of 1 alone, got {rank} for "
                f"{list(self._shape)}"
            )
        train = self.data.transpose(0, 1)
        return train.reshape(train.shape[:rank]).to(dtype)

    def steps(self, start: int = 0, stop: int | None = None) -> SpikeTensor:
        """Steps `start` to `stop`, counted as Python's slices are."""
        begin, end, _ = slice(start, stop).indices(self.timesteps)
        end = max(begin, end)
        batch, _, *rest = self._shape
        shape = torch.Size((batch, end - begin, *rest))
        if self.layout == "dense":
            return self._like(self._stored[:, begin:end].contiguous(), shape)
        step = math.prod(rest)
        if not shape.numel() or not self._stored.numel():
            return self._like(self._stored[:0], shape)
        item, inside = (
            self._stored // (step * self.timesteps),
            self._stored % (step * self.timesteps),
        )
        chosen = (inside >= begin * step) & (inside < end * step)
        moved = item * (step * (end - begin)) + inside - begin * step
        return self._like(moved[chosen], shape)

    def count(self) -> int:
        """The number of spikes."""
        return int(self._stored.sum() if self.layout == "dense" else self._stored.numel())

    def counts(self, *axes: str) -> Tensor:
        """The numbers of spikes at each position of `axes`, int64, in the order of the tensor.

        `counts("time")` is [T], the spikes of each step; `counts("batch", "channels")` is
        [batch, channels]; no axes give the number of all.

        Raises:
            OptionError: an unknown axis, or twice the same.
        """
        if len(set(axes)) != len(axes) or not set(axes) <= set(AXES):
            raise OptionError(f"expected different axes of {', '.join(AXES)}, got {list(axes)}")
        axes_kept = [index for index, name in enumerate(AXES) if name in axes]
        if self.layout == "dense":
            rest = [index for index in range(len(AXES)) if index not in axes_kept]
            return self._stored.sum(rest) if rest else self._stored.to(torch.int64)
        sizes = torch.Size([self._shape[index] for index in axes_kept])
        places = torch.unravel_index(self._stored, self._shape)
        flat = torch.zeros_like(self._stored)
        for index in axes_kept:
            flat = flat * self._shape[index] + places[index]
        return torch.bincount(flat, minlength=sizes.numel()).reshape(sizes)

    def rate(self) -> float:
        """The mean number of spikes a place and step, from 0 to 1; 0 of nothing."""
        return self.count() / max(1, self._shape.numel())

    def to(self, device: torch.device | str) -> SpikeTensor:
        """The same tensor on another device."""
        return self._like(self._stored.to(device))

    def cpu(self) -> SpikeTensor:
        """The same tensor in main memory."""
        return self.to("cpu")

    def cuda(self, device: torch.device | str = "cuda") -> SpikeTensor:
        """The same tensor on a GPU."""
        return self.to(device)

    def save(self, path: str | Path) -> None:
        """Write a safetensors file: `spikes` as eight places a byte, or `events` as indices.

        Raises:
            OSError: the file cannot be written; nothing is left behind.
        """
        from safetensors.torch import save

        stored = self._stored.cpu()
        entry = {"spikes": pack(stored)} if self.layout == "dense" else {"events": stored}
        facts = {"shape": list(self._shape), "dt": self._dt, "metadata": self.metadata}
        # One entry: safetensors writes several in any order.
        content = save(entry, {"spike_tensor": json.dumps(facts, sort_keys=True)})
        with PendingFiles() as pending:
            pending.add(Path(path), content)

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str = "cpu") -> SpikeTensor:
        """Read what `save` wrote, in the layout it had. No code in the file is run.

        Raises:
            ParameterError: the file is missing, or not what `save` writes.
        """
        entries, facts = read_tensor_file(path, "spike tensor", "spike_tensor", device)
        try:
            return cls._restore(entries, facts)
        except (ParameterError, OptionError) as error:
            raise ParameterError(f"spike tensor '{path}': {error}") from None

    @classmethod
    def _restore(cls, entries: Mapping[str, Tensor], content: Any) -> SpikeTensor:
        if not isinstance(content, dict) or set(cast(Any, content)) != {"shape", "dt", "metadata"}:
            raise ParameterError("expected shape, dt and metadata")
        sizes = check_shape(content["shape"])
        facts = (sizes, check_dt(content["dt"]), text_of(cast(Any, content["metadata"])))
        if set(entries) == {"spikes"}:
            return cls._of(unpack(entries["spikes"], sizes), *facts)
        if set(entries) != {"events"}:
            raise ParameterError(f"expected 'spikes' or 'events', got {sorted(entries)}")
        indices = entries["events"]
        is_right = indices.dtype == torch.int64 and indices.dim() == 1
        if not is_right or bool(((indices < 0) | (indices >= sizes.numel())).any()):
            raise ParameterError(f"the events are no indices of {list(sizes)}")
        if bool((indices[1:] < indices[:-1]).any()):
            raise ParameterError("the events are not in order")
        return cls._sparse(indices, *facts)

    def _indices(self) -> Tensor:
        if self.layout == "sparse":
            return self._stored
        return self._stored.flatten().nonzero().flatten()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SpikeTensor):
            return NotImplemented
        if (self._shape, self._dt, self._metadata) != (other._shape, other._dt, other._metadata):
            return False
        if self.layout == other.layout:
            return torch.equal(self._stored, other._stored.to(self.device))
        return torch.equal(self._indices(), other._indices().to(self.device))

    def __repr__(self) -> str:
        spikes = "…" if self.device.type == "meta" else self.count()
        return (
            f"SpikeTensor(shape={tuple(self._shape)}, dt={self._dt:g}, {spikes} spikes, "
            f"{self.layout}, {self.nbytes} bytes, device='{self.device}')"
        )
