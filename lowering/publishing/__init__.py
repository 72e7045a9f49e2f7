"""Models on the Hugging Face Hub and on GitHub: packages pushed and loaded, with a card.

`hub` and `github` are the places, `card` says what a model is, `sending` what both have in common.
Tokens come from the environment or the caller, and are never told. Not here: what a package holds
(`lowering.packages`).
"""
