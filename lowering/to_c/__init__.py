"""The target `c`: C99 for microcontrollers, with static memory and packed weights.

`target` has the stages and the files, `planning` what a program becomes in memory: the steps of
`to_native.program`, with products of its own (`products`, `synapses`). `expressions`, `nests`,
`calls` and `text` write C, `library` holds functions in C that it calls. Not here: what an op means
(`to_native.linalg`), boards and emulators (`runtime.boards`).
"""
