"""Language models from published files: Hugging Face folders and GGUF files become programs.

`decoder` says what a model is made of, whatever file it is in; `program` writes it in the language,
of the standard layers; `checkpoint` reads both out of a configuration and tensors; `rotary`
computes frequencies, `projections` turns matrices into trits. `folder` and `gguf_file` have the two
formats, `modules` what becomes of them in the IR. Not here: the layers
(`ir/language/prelude.tri`), and tokens to text (`runtime.generation`).
"""
