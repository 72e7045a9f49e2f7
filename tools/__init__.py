"""The command lines: `triton-opt`, `triton-translate` and `triton`.

A tool reads arguments, calls the library and prints; every tool is a `main(argv) -> int`. What a
program could want to call without a command line belongs in one of the other folders.
"""
