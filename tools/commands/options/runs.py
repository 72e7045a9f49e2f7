"""Options of commands that run a program."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .common import (
    Device,
    Json,
    Layer,
    OnInputs,
    OverTime,
    Program,
    Provider,
    Rounding,
    Samples,
    TokenizerFile,
    Weights,
    flag,
    number,
    option,
)


# fmt: off
@dataclass(frozen=True)
class Run(OverTime):
    """Run a program on inputs from a file, or on random ones.

    A spiking program in the interpreter also tells its spikes, firing rates and additions.

    Example: triton run model.tri -w model.safetensors -i digits.npz --engine onnx
    """

    engine: Annotated[str, option("NAME",
        "'interpreter', or a target such as onnx or native.")] = "interpreter"
    device: Device = "cpu"
    provider: Provider = None
    output: Annotated[Path | None, option("FILE", "Write the outputs as .npz.", "--output",
        "-o")] = None
    raster: Annotated[Path | None, option("FILE",
        "Draw the spikes of one sample: .png, .svg or .pdf.")] = None
    traces: Annotated[Path | None, option("FILE",
        "Draw the membrane potentials of one sample.")] = None
    rates: Annotated[Path | None, option("FILE",
        "Draw histograms of the firing rates of each layer.")] = None
    accuracy: Annotated[Path | None, option("FILE",
        "Draw the accuracy against timesteps; with --labels.")] = None
    labels: Annotated[Path | None, option("FILE",
        "The class of each sample, for --accuracy: .npy.")] = None
    sample: Annotated[int, number("The sample that --raster and --traces draw.", 0)] = 0
    json: Json = False


@dataclass(frozen=True)
class Verify(OnInputs):
    """Run the same inputs through the source, the interpreter and each target, and compare.

    The source is the file as it was given, in an engine that is not ours; where there is none, the
    interpreter's values are expected. Integer programs must agree exactly. Exits with 1 when an
    engine disagrees, and says at which op. Targets that cannot express the program are named, and
    left out unless asked for.

    Example: triton verify model.tri -w model.safetensors -i test.npz
    """

    target: Annotated[list[str] | None, option("TARGET", "Repeat for several.", "--target", "-t",
        show_default="pytorch, onnx, native and tflite, where installed")] = None
    rounding: Rounding = None
    samples: Samples = 16
    device: Device = "cpu"
    provider: Provider = None
    rtol: Annotated[float, number("Relative tolerance, float programs.", 0)] = 1e-4
    atol: Annotated[float, number("Absolute tolerance, float programs.", 0)] = 1e-5
    layers: Annotated[bool, flag("--layers",
        "Each layer: as a circuit (target verilog), or its spikes on a target.")] = False
    vectors: Annotated[int, number("Random vectors for a layer, with --layers.", 2,
        1_000_000)] = 10_000
    special: Annotated[bool, flag("--special",
        "Inputs with NaN, infinities and the ends of floats too.")] = False
    trace: Annotated[bool, flag("--trace/--no-trace",
        "Follow a difference to the first op, which takes further runs.")] = True
    prove: Annotated[float | None, option("SECONDS",
        "Prove small layers right for every input, so long each; with --layers.", min=1)] = None
    json: Json = False


@dataclass(frozen=True)
class Explore(OverTime):
    """Write a page that shows a program: each pass, each op, what it computes, where engines part.

    The page is one file that asks for nothing: stages as graphs and as text, what changed between
    two, ranges and histograms of each value on a sample, what each engine makes of each op, spikes,
    and costs by layer. Exits with 1 when a pass or an engine differs, after the page is written.

    Example: triton explore model.onnx -i sample.npy -p fuse-linear -t onnx -o page.html
    """

    rounding: Rounding = None
    target: Annotated[list[str] | None, option("TARGET", "Lower to it too; repeat for several.",
        "--target", "-t")] = None
    output: Annotated[Path | None, option("FILE", "Where to write. Default: FILE's stem.",
        "--output", "-o")] = None
    format: Annotated[str, option("NAME",
        "html, json, dot, netron (ONNX) or model-explorer.")] = "html"
    stage: Annotated[str | None, option("NAME", "The stage that dot and netron show.",
        show_default="the last one before targets")] = None


@dataclass(frozen=True)
class Profile(OverTime):
    """Time each step of a native program beside what this machine allows, and other engines.

    A step's bound is the larger of two times: of its arithmetic, and of reading its bytes.

    Example: triton profile model.onnx --target native
    """

    target: Annotated[str, option("TARGET", "With options: 'native{recipe=avx2}'.", "--target",
        "-t")] = "native"
    seconds: Annotated[float, number("How long to measure each engine.", 0.01, 3600)] = 1.0
    no_peers: Annotated[bool, flag("--no-peers", "Leave other engines out.")] = False
    json: Json = False


@dataclass(frozen=True)
class Attack:
    """Count right answers of a classifier, as they are and after attacks on its inputs.

    Attacks are those of torchattacks, by gradients of PyTorch, on inputs from 0 to 1. Square asks
    for answers alone: that is what there is for programs of spikes, which have no slopes.

    Example: triton attack model.tri -w model.safetensors -i x.npy --labels y.npy -a 'PGD{eps=0.1}'
    """

    file: Program
    inputs: Annotated[Path, option("FILE", "Inputs: .npz, .safetensors or .npy.", "--inputs", "-i")]
    labels: Annotated[Path, option("FILE", "The class of each sample: .npy.")]
    attack: Annotated[list[str] | None, option("ATTACK", "With options; repeat for several.",
        "--attack", "-a", show_default="GN, FGSM, PGD, Square")] = None
    weights: Weights = None
    layer: Layer = None
    limit: Annotated[int | None, number("Samples to attack.", 1)] = None
    seed: Annotated[int, number("Seed of attacks.", 0)] = 0
    json: Json = False


@dataclass(frozen=True)
class Serve:
    """Serve models over HTTP, in the form of the Open Inference Protocol (KServe's version 2).

    Requests that wait go through together. A model answers as soon as its first target is ready;
    further ones take its place when they are, and it theirs where they fail. Language models are
    served in the form of OpenAI's completions and chats. Stops after the answers that it owes.

    Example: triton serve model.tri -w model.safetensors -t pytorch -t native --port 8080
    """

    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Models, named by stem.")]
    target: Annotated[list[str] | None, option("TARGET", "Repeat for several.", "--target", "-t",
        show_default="native")] = None
    weights: Weights = None
    host: Annotated[str, option("ADDRESS", "The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, number("0 takes a free one.", 0, 65535)] = 8080
    batch: Annotated[int, number("The most samples that go through at once.", 1, 65536)] = 64
    delay: Annotated[float, number("Seconds that a request waits for others.", 0, 60)] = 0.0
    queue: Annotated[int, number("Requests that may wait; more get the status 429.", 1)] = 1024
    workers: Annotated[int, number("Batches that run at once.", 1, 256)] = 1
    replicas: Annotated[int, number(
        "So many servers, on this port and those after it, each started anew when it dies; "
        "for a proxy or a client that knows them all.", 1, 256)] = 1
    device: Device = "cpu"
    tls_cert: Annotated[Path | None, option("FILE",
        "The server's certificate (PEM): TLS 1.3 from then on.")] = None
    tls_key: Annotated[Path | None, option("FILE", "Its key (PEM).")] = None
    client_ca: Annotated[Path | None, option("FILE",
        "Clients must show a certificate of one of these.")] = None
    policy: Annotated[Path | None, option("FILE", "Who may do what (TOML).")] = None
    audit: Annotated[Path | None, option("FILE", "Note each request in this file.")] = None
    deploy: Annotated[bool, flag("--deploy",
        "Take packages from those who may by --policy.")] = False
    texts: Annotated[int, number("Texts that a language model writes at once.", 1, 4096)] = 4
    tokenizer: TokenizerFile = None
