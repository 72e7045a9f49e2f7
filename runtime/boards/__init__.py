"""Programs in C on emulated microcontrollers: results, instructions, flash and RAM.

`boards` names them and holds the commands; `harness.c` and `board.ld` are what starts there, `boot`
makes manifests of images, which `boot.c` checks before `bootloader.c` starts them. Not
here: the programs (`lowering.to_c`).
"""
