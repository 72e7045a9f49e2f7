"""Models over HTTP: the Open Inference Protocol, requests gathered in batches, figures of a run.

`signature` says what a model takes and gives, `protocol` reads and writes requests, `batching`
gathers them, `models` holds what is served, `server` is the application. A model is a function of
arrays; not here: what compiles one (`triton serve`).
"""
