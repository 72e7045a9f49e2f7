"""The PyTorch frontend: an `nn.Module` becomes IR through `torch.export`.

`exporting` gets the graph, whose free sizes `free_sizes` names, `importer` walks it,
`torch_builder` holds the values, `sizes` reads symbolic sizes, `places` source lines. Each
`rules_*` file has the rules of one family of operators, `torch_operators` the table. Not here: the
way back (`lowering.to_pytorch`).
"""

from .importer import TorchWarning, from_torch

__all__ = ["TorchWarning", "from_torch"]
