"""The commands of `triton`, one file each; `tools.cli` gathers them."""
