"""Options of commands that pack, check and publish models."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .common import Inputs, Json, Program, Weights, flag, number, option

File = Path | None
Files = list[Path] | None
Texts = list[str] | None

# fmt: off
PackageFile = Annotated[Path, typer.Argument(metavar="PACKAGE",
    help="A .tpk file, or an unpacked one.", show_default=False)]
KeyFile = Annotated[File, option("FILE", "Of an encrypted package.",
    show_default="that of TRITON_KEY_FILE")]


@dataclass(frozen=True)
class Package:
    """Make one file of a model: its program, artefacts of several targets, a manifest.

    TRITON_PASSPHRASE in the environment holds the passphrase of --passphrase,
    TRITON_KEY_PASSWORD that of an encrypted signing key.

    Example: triton package model.tri -w model.safetensors -t onnx -t c -o model.tpk
    """

    file: Program
    target: Annotated[Texts, option("TARGET", "Repeat for several.", "--target", "-t")] = None
    output: Annotated[File, option("FILE", "Default: FILE's stem, .tpk.", "--output", "-o")] = None
    weights: Weights = None
    name: Annotated[str | None, option("NAME", "Of the model. Default: FILE's stem.")] = None
    license: Annotated[str | None, option("SPDX", "Of the model, such as Apache-2.0.")] = None
    card: Annotated[File, option("FILE", "Text about the model, in Markdown.")] = None
    inputs: Inputs = None
    labels: Annotated[File, option("FILE", "Labels of --inputs, to measure each target by.")] = None
    key: Annotated[File, option("FILE", "Encrypt by the key in a file of 32 bytes.")] = None
    passphrase: Annotated[bool, flag("--passphrase",
        "Encrypt by the passphrase of the environment.")] = False
    sign: Annotated[File, option("KEY", "Sign by a private key (PEM), into OUTPUT.sig.")] = None
    certificate: Annotated[File, option("FILE", "The certificate of the signing key.")] = None
    chain: Annotated[Files, option("FILE", "Certificates between it and the authority.")] = None
    json: Json = False


@dataclass(frozen=True)
class Inspect:
    """Say what a package holds, and where it comes from; everything in it is checked.

    Example: triton inspect model.tpk
    """

    file: PackageFile
    key: KeyFile = None
    extract: Annotated[File, option("DIR", "Unpack to this folder.")] = None
    json: Json = False


@dataclass(frozen=True)
class VerifyPackage:
    """Check every byte of a package, a folder of a target or a sealed file, and its signature.

    Example: triton verify-package model.tpk --signature model.tpk.sig --public-key key.pub
    """

    files: Annotated[list[Path], typer.Argument(metavar="FILE",
        help="Packages, folders, .onnx, .tflite, .safetensors.")]
    key: KeyFile = None
    signature: Annotated[File, option("FILE", "That must be valid for the one FILE.")] = None
    public_key: Annotated[File, option("FILE", "Of the signer, as PEM.")] = None
    authority: Annotated[Files, option("FILE", "Certificates that vouch for the signer's.")] = None
    json: Json = False


@dataclass(frozen=True)
class Boot:
    """Make the manifest by which firmware checks an image before it starts it.

    Prints the anchor, 32 bytes that belong where nobody can change them.

    Example: triton boot firmware.bin --sources firmware/
    """

    file: Annotated[Path, typer.Argument(metavar="IMAGE", help="What is in flash.",
        show_default=False)]
    output: Annotated[File, option("FILE", "Default: IMAGE.boot.", "--output", "-o")] = None
    block: Annotated[int, number("Bytes for each value of the chain.", 1, 1 << 30)] = 4096
    sources: Annotated[File, option("DIR", "Write boot.c and boot.h there.")] = None
    json: Json = False


@dataclass(frozen=True)
class Audit:
    """Check the log of a server, and tell its newest hash.

    Example: triton audit serve.log
    """

    file: Annotated[Path, typer.Argument(metavar="FILE", help="What --audit of serve wrote.",
        show_default=False)]
    json: Json = False


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
    repo: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The repository.",
        show_default=False)]
    message: Annotated[str, option("TEXT", "Of the commit.")] = "Add the model"
    private: Annotated[bool, flag("--private", "A repository that is made is yours alone.")] = False
    tag: Annotated[Texts, option("TAG", "Tags of the card; the one of the release.")] = None
    target: Annotated[Texts, option("TARGET", "Of a model that is no package; repeat.",
        "--target", "-t", show_default="pytorch, onnx")] = None
    weights: Weights = None
    license: Annotated[str | None, option("SPDX", "Of a model that is no package.")] = None
    release_name: Annotated[str | None, option("TEXT", "Of a release that is made.")] = None
    description: Annotated[str, option("TEXT", "Of a release that is made.")] = ""
    replace: Annotated[bool, flag("--replace",
        "Let an asset of the same name be replaced.")] = False
    json: Json = False
