"""Models over HTTP: the Open Inference Protocol, requests gathered in batches, figures of a run.

`signature` says what a model takes and gives, `protocol` reads and writes requests, `batching`
gathers them, `models` holds what is served, `server` is the application. Before it stands who may
ask for what: `access` by a `policy`, noted in a log (`audit`), over bounded `connections`.
A model is a function of arrays; not here: what compiles one (`triton serve`).
"""
