"""The options of each command: what `triton COMMAND --help` says, without what runs it.

A class is a command of its name, in small letters; its docstring is the help. Not here: the
commands, which are functions of one such object in the file of their name.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Program = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A .tri program, a .nir, .net, .onnx, .tflite or .pt2 model, a .tpk package, a .mlir.",
        show_default=False,
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights", "-w", metavar="FILE", help="Weights: .safetensors, .npz, .pt or .pth."
    ),
]
RandomWeights = Annotated[
    bool,
    typer.Option("--random-weights", help="Give parameters without values seeded random ones."),
]
Layer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Entry layer. By default the last one in the file."),
]
Dt = Annotated[
    float | None,
    typer.Option("--dt", metavar="SECONDS", help="Seconds in a step, of a .nir graph."),
]
Rounding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Whose integers a .tflite file has: reference, xnnpack or once.",
        show_default="reference",
    ),
]
Passes = Annotated[
    str,
    typer.Option(
        "--passes", "-p", metavar="PIPELINE", help="Passes to run first, such as 'fuse-linear'."
    ),
]
Inputs = Annotated[
    Path | None,
    typer.Option(
        "--inputs",
        "-i",
        metavar="FILE",
        help="Inputs: .npz, .safetensors or .npy; recorded spikes.",
    ),
]
Samples = Annotated[int, typer.Option(min=1, max=1_000_000, help="Batch size of random inputs.")]
Device = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="What PyTorch and ONNX Runtime run on: auto, cpu, cuda or rocm."
    ),
]
Provider = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The execution provider of ONNX Runtime.",
        show_default="that of --device",
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of random inputs.")]
LanguageModel = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL",
        help="A folder with config.json and .safetensors, or a .gguf file.",
        show_default=False,
    ),
]
TokenizerFile = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer", metavar="FILE", help="A tokenizer.json.", show_default="that of the folder"
    ),
]
TextEngine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="TARGET",
        help="native, onnx, pytorch or interpreter, with options; or transformers.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@dataclass(frozen=True)
class Compile:
    """Compile a program to PyTorch, ONNX, native code or another target.

    Example: triton compile model.tri -t onnx -w model.safetensors -o model.onnx
    """

    file: Program
    target: Annotated[
        str,
        typer.Option(
            "--target", "-t", metavar="TARGET", help="Target, with options: 'onnx{opset=17}'."
        ),
    ] = "pytorch"
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="PATH", help="Where to write. Default: FILE's stem."
        ),
    ] = None
    weights: Weights = None
    layer: Layer = None
    dt: Dt = None
    rounding: Rounding = None
    passes: Passes = ""
    trainable: Annotated[
        bool,
        typer.Option(help="Keep float latents of ternary weights, for training."),
    ] = False
    dump_stages: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the IR after each stage to this folder."),
    ] = None
    no_self_check: Annotated[
        bool,
        typer.Option(
            "--no-self-check", help="Do not compare the file in its engine before it is written."
        ),
    ] = False
    json: Json = False


@dataclass(frozen=True)
class Check:
    """Check programs and print every error.

    Example: triton check model.tri
    """

    files: Annotated[list[Path], typer.Argument(metavar="FILE...", show_default=False)]
    json: Json = False


@dataclass(frozen=True)
class Explain:
    """Say what the code of a message means: the rule, an example, and the same put right.

    Example: triton explain E0201
    """

    code: Annotated[
        str | None,
        typer.Argument(metavar="CODE", help="Such as E0201. Without it, all.", show_default=False),
    ] = None
    json: Json = False


@dataclass(frozen=True)
class Fmt:
    """Format programs in place.

    Example: triton fmt model.tri
    """

    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Programs; '-' reads stdin.", show_default=False),
    ]
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit with 1 if a file would change.")
    ] = False
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; print what would.")] = False


@dataclass(frozen=True)
class Run:
    """Run a program on inputs from a file, or on random ones.

    A spiking program in the interpreter also tells its spikes, firing rates and additions.

    Example: triton run model.tri -w model.safetensors -i digits.npz --engine onnx
    """

    file: Program
    inputs: Inputs = None
    weights: Weights = None
    random_weights: RandomWeights = False
    layer: Layer = None
    dt: Dt = None
    passes: Passes = ""
    engine: Annotated[
        str,
        typer.Option(metavar="NAME", help="'interpreter', or a target such as onnx or native."),
    ] = "interpreter"
    device: Device = "cpu"
    provider: Provider = None
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the outputs as .npz."),
    ] = None
    raster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the spikes of one sample: .png, .svg or .pdf."),
    ] = None
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the membrane potentials of one sample."),
    ] = None
    rates: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw histograms of the firing rates of each layer."),
    ] = None
    accuracy: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the accuracy against timesteps; with --labels."),
    ] = None
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The class of each sample, for --accuracy: .npy."),
    ] = None
    sample: Annotated[
        int, typer.Option(min=0, help="The sample that --raster and --traces draw.")
    ] = 0
    timesteps: Annotated[
        int,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Steps of random inputs with time first, where the program leaves them open.",
        ),
    ] = 16
    samples: Samples = 1
    seed: Seed = 0
    json: Json = False


@dataclass(frozen=True)
class Verify:
    """Run the same inputs through the source, the interpreter and each target, and compare.

    The source is the file as it was given, in an engine that is not ours; where there is none, the
    interpreter's values are expected. Integer programs must agree exactly. Exits with 1 when an
    engine disagrees, and says at which op. Targets that cannot express the program are named, and
    left out unless asked for.

    Example: triton verify model.tri -w model.safetensors -i test.npz
    """  # fmt: skip

    file: Program
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="TARGET",
            help="Repeat for several.",
            show_default="pytorch, onnx, native and tflite, where installed",
        ),
    ] = None
    inputs: Inputs = None
    weights: Weights = None
    random_weights: RandomWeights = False
    layer: Layer = None
    dt: Dt = None
    rounding: Rounding = None
    passes: Passes = ""
    samples: Samples = 16
    seed: Seed = 0
    device: Device = "cpu"
    provider: Provider = None
    rtol: Annotated[float, typer.Option(min=0, help="Relative tolerance, float programs.")] = 1e-4
    atol: Annotated[float, typer.Option(min=0, help="Absolute tolerance, float programs.")] = 1e-5
    layers: Annotated[
        bool,
        typer.Option(
            "--layers", help="Each layer: as a circuit (target verilog), or its spikes on a target."
        ),
    ] = False
    vectors: Annotated[
        int,
        typer.Option(min=2, max=1_000_000, help="Random vectors for a layer, with --layers."),
    ] = 10_000
    special: Annotated[
        bool,
        typer.Option("--special", help="Inputs with NaN, infinities and the ends of floats too."),
    ] = False
    trace: Annotated[
        bool,
        typer.Option(help="Follow a difference to the first op, which takes further runs."),
    ] = True
    prove: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Prove small layers right for every input, so long each; with --layers.",
        ),
    ] = None
    json: Json = False


@dataclass(frozen=True)
class Serve:
    """Serve models over HTTP, in the form of the Open Inference Protocol (KServe's version 2).

    Requests that wait go through together. A model answers as soon as its first target is ready;
    further ones take its place when they are, and it theirs where they fail. Language models are
    served in the form of OpenAI's completions and chats. Stops after the answers that it owes.

    Example: triton serve model.tri -w model.safetensors -t pytorch -t native --port 8080
    """

    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Models, named by stem.")]
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target", "-t", metavar="TARGET", help="Repeat for several.", show_default="native"
        ),
    ] = None
    weights: Weights = None
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080
    batch: Annotated[
        int, typer.Option(min=1, max=65536, help="The most samples that go through at once.")
    ] = 64
    delay: Annotated[
        float, typer.Option(min=0, max=60, help="Seconds that a request waits for others.")
    ] = 0.0
    queue: Annotated[
        int, typer.Option(min=1, help="Requests that may wait; more get the status 429.")
    ] = 1024
    workers: Annotated[int, typer.Option(min=1, max=256, help="Batches that run at once.")] = 1
    replicas: Annotated[
        int,
        typer.Option(
            min=1,
            max=256,
            help="So many servers, on this port and those after it, each started anew when it "
            "dies; for a proxy or a client that knows them all.",
        ),
    ] = 1
    device: Device = "cpu"
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The server's certificate (PEM): TLS 1.3 from then on."),
    ] = None
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key (PEM).")] = None
    client_ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Clients must show a certificate of one of these."),
    ] = None
    policy: Annotated[Path | None, typer.Option(metavar="FILE", help="Who may do what (TOML).")] = (
        None
    )
    audit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Note each request in this file.")
    ] = None
    deploy: Annotated[
        bool, typer.Option("--deploy", help="Take packages from those who may by --policy.")
    ] = False
    texts: Annotated[
        int, typer.Option(min=1, max=4096, help="Texts that a language model writes at once.")
    ] = 4
    tokenizer: TokenizerFile = None


@dataclass(frozen=True)
class Info:
    """Show a program's inputs, outputs, parameters, sizes and ops.

    Example: triton info model.tri
    """

    file: Program
    weights: Weights = None
    layer: Layer = None
    dt: Dt = None
    passes: Passes = ""
    json: Json = False


@dataclass(frozen=True)
class Devices:
    """List processors, GPUs and ONNX Runtime providers."""

    json: Json = False


@dataclass(frozen=True)
class Doctor:
    """Check the installation, and tell which native kernels this processor gets.

    Exits with 1 when something always needed is missing.
    """

    json: Json = False


Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The class of each sample: .npy. Without, those of the float program are right.",
    ),
]


@dataclass(frozen=True)
class Convert:
    """Convert a trained float program to spiking ones, and show what their accuracy costs.

    Nothing is trained and no label is needed. The table has the conversions that no other one beats
    in accuracy, steps and spikes, measured on the last fourth of the samples, which calibrate
    nothing. The chosen one is written: the most accurate, the nearest to the float program within a
    budget of spikes, or the one of an accuracy with the fewest spikes.

    Example: triton convert model.onnx --samples train.npy --budget 2000 -o spiking.mlir
    """

    file: Program
    samples: Annotated[
        Path,
        typer.Option(
            "--samples",
            "-s",
            metavar="FILE",
            help="Sample inputs: .npz, .safetensors or .npy; the first axis counts them.",
            show_default=False,
        ),
    ]
    labels: Labels = None
    weights: Weights = None
    layer: Layer = None
    timesteps: Annotated[str, typer.Option(metavar="T,…", help="The numbers of steps to try.")] = (
        "1,2,4"
    )
    price: Annotated[
        str | None,
        typer.Option(
            metavar="P,…",
            help="The prices of spikes to try, as shares of the information in the result.",
        ),
    ] = None
    budget: Annotated[
        float | None, typer.Option(metavar="SPIKES", help="The most spikes a sample.")
    ] = None
    accuracy: Annotated[
        float | None, typer.Option(metavar="SHARE", help="The least accuracy, from 0 to 1.")
    ] = None
    target: Annotated[
        str | None,
        typer.Option(
            "--target", "-t", metavar="TARGET", help="Use what this target holds, such as nir."
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the chosen program: .mlir."),
    ] = None
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw accuracy against spikes: .png, .svg or .pdf."),
    ] = None
    json: Json = False


@dataclass(frozen=True)
class Quantize:
    """Give a trained float program integers and few bits, layer by layer, without training.

    Weights of all layers get the bits that are asked for, activations 8. Where that loses too much
    on the last fourth of the samples, which calibrate nothing, the layers that lose most for what
    they save keep more bits. The table tells what each layer alone costs, and what it got.

    Example: triton quantize model.onnx --calibration train.npy --bits ternary -o integer.mlir
    """

    file: Program
    calibration: Annotated[
        Path,
        typer.Option(
            "--calibration",
            "-s",
            metavar="FILE",
            help="Sample inputs: .npz, .safetensors or .npy; the first axis counts them.",
            show_default=False,
        ),
    ]
    bits: Annotated[
        str, typer.Option(metavar="BITS", help="Of weights: int8, int4 or ternary.")
    ] = "int8"
    labels: Labels = None
    weights: Weights = None
    layer: Layer = None
    drop: Annotated[
        float, typer.Option(metavar="POINTS", help="The most accuracy to lose, in percent.")
    ] = 1.0
    budget: Annotated[
        float | None,
        typer.Option(metavar="BITS", help="The most bits of a weight on average, not a drop."),
    ] = None
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="A weight whose layer keeps more bits; repeatable."),
    ] = None
    observer: Annotated[
        str,
        typer.Option(metavar="NAME", help="How ranges follow from samples, as for calibrate."),
    ] = "minmax"
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the program: .mlir."),
    ] = None
    json: Json = False


@dataclass(frozen=True)
class Energy:
    """Estimate what a spiking program takes on neuromorphic machines, and beside them.

    The program runs in the interpreter, for Loihi 2 and SpiNNaker as the files have it that are
    compiled for them; its spikes, synapses and the way of each message between cores are counted,
    times what they cost. Where sources differ both ends are told.

    Example: triton energy spiking.mlir -i digits.npz -d loihi2 -d spinnaker1
    """

    file: Program
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            "-d",
            metavar="MACHINE",
            help="A machine or the path of its .toml file; repeat for several.",
            show_default="Loihi 2, SpiNNaker 1 and 2, FPGA, CPU and GPU",
        ),
    ] = None
    inputs: Inputs = None
    weights: Weights = None
    random_weights: RandomWeights = False
    layer: Layer = None
    dt: Dt = None
    passes: Passes = ""
    timesteps: Annotated[
        int,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Steps of random inputs with time first, where the program leaves them open.",
        ),
    ] = 16
    samples: Samples = 1
    seed: Seed = 0
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it: .png, .svg or .pdf.")
    ] = None
    core_map: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the cores of the first machine.")
    ] = None
    traffic: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the spikes between them.")
    ] = None
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the spikes of each step.")
    ] = None
    json: Json = False


@dataclass(frozen=True)
class Profile:
    """Time each step of a native program beside what this machine allows, and other engines.

    A step's bound is the larger of two times: of its arithmetic, and of reading its bytes.

    Example: triton profile model.onnx --target native
    """

    file: Program
    target: Annotated[
        str,
        typer.Option(
            "--target", "-t", metavar="TARGET", help="With options: 'native{recipe=avx2}'."
        ),
    ] = "native"
    inputs: Inputs = None
    weights: Weights = None
    random_weights: RandomWeights = False
    layer: Layer = None
    dt: Dt = None
    passes: Passes = ""
    timesteps: Annotated[
        int,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Steps of random inputs with time first, where the program leaves them open.",
        ),
    ] = 16
    samples: Samples = 1
    seed: Seed = 0
    seconds: Annotated[
        float, typer.Option(min=0.01, max=3600, help="How long to measure each engine.")
    ] = 1.0
    no_peers: Annotated[bool, typer.Option("--no-peers", help="Leave other engines out.")] = False
    json: Json = False


@dataclass(frozen=True)
class Explore:
    """Write a page that shows a program: each pass, each op, what it computes, where engines part.

    The page is one file that asks for nothing: stages as graphs and as text, what changed between
    two, ranges and histograms of each value on a sample, what each engine makes of each op, spikes,
    and costs by layer. Exits with 1 when a pass or an engine differs, after the page is written.

    Example: triton explore model.onnx -i sample.npy -p fuse-linear -t onnx -o page.html
    """

    file: Program
    weights: Weights = None
    random_weights: RandomWeights = False
    layer: Layer = None
    dt: Dt = None
    rounding: Rounding = None
    inputs: Inputs = None
    samples: Samples = 1
    seed: Seed = 0
    timesteps: Annotated[
        int,
        typer.Option(
            min=1,
            max=1_000_000,
            help="Steps of random inputs with time first, where the program leaves them open.",
        ),
    ] = 16
    passes: Passes = ""
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target", "-t", metavar="TARGET", help="Lower to it too; repeat for several."
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write. Default: FILE's stem."
        ),
    ] = None
    format: Annotated[
        str,
        typer.Option(metavar="NAME", help="html, json, dot, netron (ONNX) or model-explorer."),
    ] = "html"
    stage: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The stage that dot and netron show.",
            show_default="the last one before targets",
        ),
    ] = None


@dataclass(frozen=True)
class Generate:
    """Continue a text with a language model: a Hugging Face folder or a .gguf file.

    Example: triton generate BitNet-b1.58-2B4T --prompt 'Ternary weights' --max-tokens 64
    """

    model: LanguageModel
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="TEXT", help="What to continue, or to answer.")
    ] = None
    chat: Annotated[
        bool,
        typer.Option(
            "--chat",
            help="Answer, by the model's chat template. Without --prompt, line by line of stdin.",
        ),
    ] = False
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What a chat begins with, for the model.")
    ] = None
    tokenizer: TokenizerFile = None
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-n", min=1, max=1_000_000, help="Tokens at most.")
    ] = 128
    engine: TextEngine = "native"
    temperature: Annotated[
        float, typer.Option(min=0, help="Of the draw; 0 takes the likeliest token.")
    ] = 0.0
    top_k: Annotated[int, typer.Option(min=0, help="Draw from so many tokens; 0: from all.")] = 0
    top_p: Annotated[
        float, typer.Option(help="Draw from the likeliest tokens of this probability.")
    ] = 1.0
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0
    json: Json = False


@dataclass(frozen=True)
class Evaluate:
    """Tell how well a language model foretells a text, and whether two engines agree on it.

    Perplexity and bits a byte, over windows of tokens. With --against the same on another engine,
    such as transformers: the largest difference of two logits, and how many tokens are the same
    when each continues the text. Exits with 1 where they part.

    Example: triton evaluate BitNet-b1.58-2B4T --text pages.txt --against transformers
    """

    model: LanguageModel
    text: Annotated[
        Path, typer.Option("--text", metavar="FILE", help="A text in UTF-8.", show_default=False)
    ]
    tokenizer: TokenizerFile = None
    engine: TextEngine = "native"
    against: Annotated[
        str | None, typer.Option(metavar="TARGET", help="Another engine to compare with.")
    ] = None
    window: Annotated[
        int, typer.Option(min=2, max=1_000_000, help="Tokens that are told together.")
    ] = 512
    stride: Annotated[
        int, typer.Option(min=1, help="Tokens from one window to the next, below --window.")
    ] = 256
    tokens: Annotated[
        int | None, typer.Option(min=2, help="Take so many tokens of the text.", show_default="all")
    ] = None
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-n", min=1, help="Tokens to continue with --against.")
    ] = 256
    tolerance: Annotated[
        float, typer.Option(min=0, help="By how much logits may differ with --against.")
    ] = 0.1
    json: Json = False


@dataclass(frozen=True)
class Package:
    """Make one file of a model: its program, artefacts of several targets, a manifest.

    TRITON_PASSPHRASE in the environment holds the passphrase of --passphrase,
    TRITON_KEY_PASSWORD that of an encrypted signing key.

    Example: triton package model.tri -w model.safetensors -t onnx -t c -o model.tpk
    """

    file: Program
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", metavar="TARGET", help="Repeat for several."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Default: FILE's stem, .tpk."),
    ] = None
    weights: Weights = None
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the model. Default: FILE's stem.")
    ] = None
    license: Annotated[
        str | None, typer.Option(metavar="SPDX", help="Of the model, such as Apache-2.0.")
    ] = None
    card: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Text about the model, in Markdown.")
    ] = None
    inputs: Inputs = None
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Labels of --inputs, to measure each target by."),
    ] = None
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Encrypt by the key in a file of 32 bytes."),
    ] = None
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help="Encrypt by the passphrase of the environment.")
    ] = False
    sign: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Sign by a private key (PEM), into OUTPUT.sig."),
    ] = None
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate of the signing key.")
    ] = None
    chain: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Certificates between it and the authority."),
    ] = None
    json: Json = False


PackageFile = Annotated[
    Path,
    typer.Argument(metavar="PACKAGE", help="A .tpk file, or an unpacked one.", show_default=False),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Of an encrypted package.", show_default="that of TRITON_KEY_FILE"
    ),
]


@dataclass(frozen=True)
class Inspect:
    """Say what a package holds, and where it comes from; everything in it is checked.

    Example: triton inspect model.tpk
    """

    file: PackageFile
    key: KeyFile = None
    extract: Annotated[Path | None, typer.Option(metavar="DIR", help="Unpack to this folder.")] = (
        None
    )
    json: Json = False


@dataclass(frozen=True)
class VerifyPackage:
    """Check every byte of a package, a folder of a target or a sealed file, and its signature.

    Example: triton verify-package model.tpk --signature model.tpk.sig --public-key key.pub
    """

    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Packages, folders, .onnx, .tflite, .safetensors."),
    ]
    key: KeyFile = None
    signature: Annotated[
        Path | None, typer.Option(metavar="FILE", help="That must be valid for the one FILE.")
    ] = None
    public_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of the signer, as PEM.")
    ] = None
    authority: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Certificates that vouch for the signer's."),
    ] = None
    json: Json = False


@dataclass(frozen=True)
class Boot:
    """Make the manifest by which firmware checks an image before it starts it.

    Prints the anchor, 32 bytes that belong where nobody can change them.

    Example: triton boot firmware.bin --sources firmware/
    """

    file: Annotated[
        Path, typer.Argument(metavar="IMAGE", help="What is in flash.", show_default=False)
    ]
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Default: IMAGE.boot."),
    ] = None
    block: Annotated[
        int, typer.Option(min=1, max=1 << 30, help="Bytes for each value of the chain.")
    ] = 4096
    sources: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write boot.c and boot.h there.")
    ] = None


@dataclass(frozen=True)
class Audit:
    """Check the log of a server, and tell its newest hash.

    Example: triton audit serve.log
    """

    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)]


class Place(StrEnum):
    """Where models are published."""

    HUB = "hub"
    GITHUB = "github"


@dataclass(frozen=True)
class Publish:
    """Publish a model on the Hugging Face Hub, or a file in a release on GitHub.

    The token is that of the environment: HF_TOKEN, GITHUB_TOKEN.

    Example: triton publish hub model.tpk owner/model
    Example: triton publish github model.tpk owner/repository --tag v1.0.0
    """

    place: Annotated[Place, typer.Argument(metavar="hub|github", show_default=False)]
    file: Program
    repo: Annotated[str, typer.Argument(metavar="OWNER/NAME", show_default=False)]
    message: Annotated[str, typer.Option(metavar="TEXT", help="Of the commit.")] = "Add the model"
    private: Annotated[
        bool, typer.Option("--private", help="A repository that is made is yours alone.")
    ] = False
    tag: Annotated[
        list[str] | None,
        typer.Option(metavar="TAG", help="Tags of the card; the one of the release."),
    ] = None
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="TARGET",
            help="Of a model that is no package; repeat.",
            show_default="pytorch, onnx",
        ),
    ] = None
    weights: Weights = None
    license: Annotated[
        str | None, typer.Option(metavar="SPDX", help="Of a model that is no package.")
    ] = None
    release_name: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Of a release that is made.")
    ] = None
    description: Annotated[str, typer.Option(metavar="TEXT", help="Of a release that is made.")] = (
        ""
    )
    replace: Annotated[
        bool, typer.Option("--replace", help="Let an asset of the same name be replaced.")
    ] = False


COMMANDS = (
    *(Compile, Convert, Quantize, Check, Explain, Fmt, Run, Generate, Evaluate, Profile, Energy),
    *(
        Verify,
        Explore,
        Serve,
        Package,
        Inspect,
        VerifyPackage,
        Publish,
        Boot,
        Audit,
        Info,
        Devices,
        Doctor,
    ),
)
"""In the order of the help."""


def command_name(options: type) -> str:
    """The command of a class of options: `verify-package` of `VerifyPackage`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", options.__name__).lower()
