"""Machines by name, a file each; `lowering.placement.device` says what stands in one."""
