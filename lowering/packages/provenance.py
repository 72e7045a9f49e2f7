"""How a package came about: an in-toto statement with the predicate of SLSA, version 1.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md, https://slsa.dev/spec/v1.0/provenance.
No times and no machines: the same model gives the same bytes. Not here: who vouches for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version


def provenance(
    files: Mapping[str, bytes],
    targets: Mapping[str, Mapping[str, object]],
    source: Mapping[str, str],
) -> bytes:
    """The statement about a package's files, as JSON.

    Each target has its manifest, with its pipeline of passes; the source, what the model was made
    from, has `file`, `sha256` and `weights_sha256`.
    """
    subjects = [
        {"name": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}
        for name, content in sorted(files.items())
    ]
    made_from = [
        {"name": name, "digest": {"sha256": source[key]}}
        for name, key in ((source.get("file", ""), "sha256"), ("weights", "weights_sha256"))
        if key in source
    ]
    definition = {
        "buildType": "urn:triton-dsl:package:1",
        "externalParameters": {"targets": {name: t["target"] for name, t in targets.items()}},
        "internalParameters": {"pipelines": {name: t["pipeline"] for name, t in targets.items()}},
        "resolvedDependencies": made_from,
    }
    builder = {"id": "urn:triton-dsl", "version": {"triton-dsl": version("triton-dsl")}}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {"buildDefinition": definition, "runDetails": {"builder": builder}},
    }
    return (json.dumps(statement, indent=2, sort_keys=True) + "\n").encode()
