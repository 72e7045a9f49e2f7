"""Machines by name, a file each; `lowering.placement.device_file` says what stands in one."""
