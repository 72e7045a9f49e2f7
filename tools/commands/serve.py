"""`triton serve`: models over HTTP."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ...dialects.elements import numpy_dtype
from ...dialects.shapes import DYNAMIC
from ...dialects.spike.types import dense_type
from ...ir.arrays import Array
from ...ir.collection import usual_collection
from ...ir.errors import BackendError, OptionError, refuse
from ...ir.extras import install
from ...ir.interpreter import entry_function
from ...ir.value_names import argument_names, result_names
from ...lowering.engine import engine_of, engine_type
from ...lowering.generation import open_language_model, open_tokenizer
from ...lowering.models import import_model
from ...lowering.options import parse_target_spec
from ...lowering.packages.package import read_package
from ...lowering.targets import get_target
from ...passes.analysis.time_axis import has_time_first
from ...runtime.device_choice import use_device
from ...runtime.language_model import LanguageModel
from ...runtime.serving.access import Guard
from ...runtime.serving.audit import AuditLog
from ...runtime.serving.batching import Limits
from ...runtime.serving.connections import bounded_protocol, server_context
from ...runtime.serving.models import Loaded, Served
from ...runtime.serving.policy import read_policy
from ...runtime.serving.server import Deploy, application
from ...runtime.serving.signature import FREE, Port, Signature
from ...runtime.serving.supervisor import supervise
from ...runtime.serving.writing import ServedText
from ..console import note, warn
from ..draws import ORDINARY, draw
from .options.runs import Serve

Model = TypeVar("Model")

_PROGRAM = __name__.replace("commands.serve", "cli")


def serve(options: Serve) -> None:
    """Serve models until a signal asks to stop.

    Raises:
        BackendError: uvicorn is missing, or the address cannot be listened on.
    """
    if find_spec("uvicorn") is None:
        raise BackendError(f"uvicorn is missing: {install('serve')}")
    _check_access(options)
    if options.replicas > 1:
        asyncio.run(supervise(_replicas(options), partial(note, "triton")))
        return
    import uvicorn

    limits = Limits(options.batch, options.delay, options.queue, options.workers)
    deploy = deployer(options) if options.deploy else None
    texts = served_texts(options)
    app = application(served_models(options), limits, deploy, texts)
    if options.policy is not None:
        audit = None if options.audit is None else AuditLog(options.audit)
        app = Guard(app, read_policy(options.policy), audit)
    # What a request says of where it comes from is not believed.
    bounds: dict[str, Any] = {"http": bounded_protocol(), "proxy_headers": False}
    config, scheme = uvicorn.Config(app, log_level="warning", **bounds), "http"
    if options.tls_cert is not None and options.tls_key is not None:
        context = server_context(options.tls_cert, options.tls_key, options.client_ca)
        config.load()
        config.ssl, scheme = context, "https"
    server = uvicorn.Server(config)
    with _listening(options.host, options.port) as opened, suppress(KeyboardInterrupt):
        # The port 0 stands for any that is free: the socket knows which.
        port: int = opened.getsockname()[1]
        host = f"[{options.host}]" if ":" in options.host else options.host
        note("triton", f"listening on {scheme}://{host}:{port}/{'v1' if texts else 'v2'}")
        with usual_collection():
            server.run(sockets=[opened])


def _check_access(options: Serve) -> None:
    """Refuse options of access that do not go together, or would send tokens in the clear."""
    is_encrypted, ca = options.tls_cert is not None, options.client_ca
    users = () if options.policy is None else read_policy(options.policy).users.values()
    is_remote = options.host not in ("127.0.0.1", "::1")
    pair, open_to_all = "--tls-cert and --tls-key", options.policy is None
    refuse(is_encrypted is (options.tls_key is None), f"{pair} go together")
    refuse(ca and not is_encrypted, f"--client-ca goes with {pair}")
    is_kept = options.audit or options.deploy
    refuse(open_to_all and is_kept, "--audit and --deploy go with --policy")
    said = f"the policy has users with certificates: give --client-ca, {pair}"
    refuse(ca is None and any(user.certificate for user in users), said)
    shows_tokens = any(user.token_sha256 for user in users)
    said = f"tokens go over encrypted connections: give {pair}"
    refuse(shows_tokens and is_remote and not is_encrypted, said)


def _replicas(options: Serve) -> list[list[str]]:
    """The command of each server."""
    is_single = options.audit or options.deploy
    refuse(is_single, "--audit and --deploy go with one server, not with --replicas")
    last = options.port + options.replicas - 1
    if options.port == 0 or last > 65535:
        raise OptionError(f"--replicas: there are no {options.replicas} ports from {options.port}")
    shared = [str(file) for file in options.files]
    own = [each.name for each in fields(options) if each.name not in ("files", "port", "replicas")]
    for name in own:
        given: Any = getattr(options, name)
        values = cast("list[Any]", given) if isinstance(given, list) else [given]
        for each in values:
            if each is not None and each is not False:
                shared += [f"--{name.replace('_', '-')}", *([] if each is True else [str(each)])]
    program = [sys.executable, "-m", _PROGRAM, "serve"]
    return [[*program, *shared, "--port", str(port)] for port in range(options.port, last + 1)]


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise BackendError(f"cannot listen on {host}, port {port}: {error}") from None


def served_models(options: Serve) -> list[Served]:
    """The models of a command line.

    Raises:
        OptionError: two files of one stem, weights for several models, or no such engine.
        TritonError: a file cannot be imported.
    """
    names = [_name(file) for file in options.files]
    if len(set(names)) != len(names):
        raise OptionError(f"models need names of their own, got the stems {sorted(names)}")
    files = [file for file in options.files if not _writes(file)]
    if options.weights is not None and len(names) > 1:
        raise OptionError("--weights goes with one model")
    targets = options.target or ["native"]
    for target in targets if files else ():
        engine_type(get_target(parse_target_spec(target).name))
    models: list[Served] = []
    for file in files:
        module = import_model(file, weights=options.weights)
        models.append(_served(_name(file), module, options))
    return models


def _served(name: str, module: ModuleOp, options: Serve) -> Served:
    targets = options.target or ["native"]
    loaders = [_loader(module.clone(), each, options.device) for each in targets]
    return Served(name, [_told(name, loader) for loader in loaders])


def _told(name: str, load: Callable[[], Model]) -> Callable[[], Model]:
    """What loads a model, and says at the server too where it cannot be."""

    def told() -> Model:
        try:
            return load()
        except Exception as error:
            warn("triton", f"model '{name}' cannot be loaded: {error or type(error).__name__}")
            raise

    return told


def served_texts(options: Serve) -> list[ServedText]:
    """The language models of a command line.

    Raises:
        OptionError: several targets.
        SourceError: there is no tokenizer.
    """
    files = [file for file in options.files if _writes(file)]
    engine, *others = options.target or ["native"]
    refuse(files and others, "a language model is served on one target")
    for file in files:
        open_tokenizer(file, options.tokenizer)

    def loader(file: Path) -> Callable[[], LanguageModel]:
        load = partial(open_language_model, file, engine, tokenizer=options.tokenizer)
        return _told(_name(file), load)

    return [ServedText(_name(file), loader(file), options.texts) for file in files]


def _writes(file: Path) -> bool:
    """Whether a file is a language model."""
    return file.suffix == ".gguf" or file.is_dir()


def _name(file: Path) -> str:
    """What a model is called: a folder's name may have points in it."""
    return file.resolve().name if file.is_dir() else file.stem


def deployer(options: Serve) -> Deploy:
    """What makes a model of the bytes of a package, for the targets of a command line."""
    return lambda name, content: _served(
        name, read_package(BytesIO(content), f"model '{name}'").module(), options
    )


def _loader(module: ModuleOp, target: str, device: str) -> Callable[[], Loaded]:
    def load() -> Loaded:
        engine = engine_of(module, target)

        def run(inputs: Sequence[Array]) -> list[Array]:
            with use_device(device):
                return engine.run(inputs)

        signature = signature_of(module)
        if signature.takes_batches and not _treats_samples_alone(module, signature, run):
            signature = _one_by_one(signature)
        return Loaded(run, signature, f"triton-dsl_{target}")

    return load


def signature_of(module: ModuleOp) -> Signature:
    """What `@forward` takes and gives."""
    function = entry_function(module, "forward")
    last: Any = function.body.block.last_op
    inputs = zip(argument_names(function), function.body.block.args, strict=True)
    outputs = zip(result_names(function), last.operands, strict=True)
    return Signature(
        [_port(name, value) for name, value in inputs],
        [_port(name, value) for name, value in outputs],
    )


def _port(name: str, value: SSAValue) -> Port:
    type = dense_type(value)
    shape = tuple(FREE if size == DYNAMIC else size for size in type.get_shape())
    axis = 1 if has_time_first(value) else 0
    is_free = len(shape) > axis and shape[axis] == FREE
    return Port(name, numpy_dtype(type.element_type), shape, axis if is_free else None)


def _treats_samples_alone(
    module: ModuleOp, signature: Signature, run: Callable[[Sequence[Array]], list[Array]]
) -> bool:
    """Whether samples come out the same alone and together, tried on random ones."""
    inputs = draw(module, ORDINARY, 3, 0)
    if inputs is None:
        return False
    whole = run(inputs)
    for index in range(3):
        alone = run([_sample(x, p, index) for x, p in zip(inputs, signature.inputs, strict=True)])
        for port, together, own in zip(signature.outputs, whole, alone, strict=True):
            if not np.allclose(_sample(together, port, index), own, 1e-3, 1e-4, equal_nan=True):
                return False
    return True


def _sample(array: Array, port: Port, index: int) -> Array:
    return np.take(array, [index], axis=port.batch_axis)


def _one_by_one(signature: Signature) -> Signature:
    def alone(ports: Sequence[Port]) -> list[Port]:
        return [Port(port.name, port.dtype, port.shape, None) for port in ports]

    return Signature(alone(signature.inputs), alone(signature.outputs))
