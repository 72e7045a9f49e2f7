"""The PyTorch target: IR to readable Python source of an `nn.Module` that needs torch alone.

Not here: running the module or comparing its results (`runtime`).
"""
