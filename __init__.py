"""Triton DSL: one neural network, written once, compiled for every target that can run it.

This file is the public face of the package: the few names that a user's program needs, loaded on
first use. It is not the place for code; each name lives in the folder that its purpose says.
"""
