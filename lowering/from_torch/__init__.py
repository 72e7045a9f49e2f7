"""The PyTorch frontend: an `nn.Module` becomes IR through `torch.export`.

`exporting` gets the graph, whose free sizes `free_sizes` names, `importer` walks it,
`torch_builder` holds the values, `sizes` reads symbolic sizes, `places` source lines. Each
`rules_*` file has the rules of one family of operators, `torch_operators` the table. Not here: the
way back (`lowering.to_pytorch`).
"""

from typing import TYPE_CHECKING

from ...ir.lazy import lazy_names

if TYPE_CHECKING:
    from .importer import TorchWarning as TorchWarning
    from .importer import from_torch as from_torch
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
