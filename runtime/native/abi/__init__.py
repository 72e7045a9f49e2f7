"""What generated native code and those who call it agree on: names, arguments, layouts, sizes.

`lowering.to_native` generates functions of these shapes, `runtime.native` calls them. Not here: how
a kernel computes, and anything that runs one.
"""
