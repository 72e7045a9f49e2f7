"""Signatures beside OpenSSL's command line and the command of model-signing, both ways."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from triton_dsl.ir.errors import BackendError, IntegrityError, OptionError
from triton_dsl.runtime.security.signing import sign, verify_signature
from triton_dsl.tools import cli


def openssl(*words: str, given: bytes = b"") -> bytes:
    done = subprocess.run(["openssl", *words], input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Keys:
    """Keys and certificates made by OpenSSL.

    Args:
        folder: they are written to.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("signer", "stranger", "root", "other"):
            key = str(self[f"{name}.pem"])
            openssl("ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", key)
            openssl("ec", "-in", key, "-pubout", "-out", str(self[f"{name}.pub"]))
        for name in ("root", "other"):
            self.certify(name, "-x509", "-key", str(self[f"{name}.pem"]))
        (folder / "usage").write_text("keyUsage=digitalSignature\nextendedKeyUsage=codeSigning\n")
        openssl("req", "-new", "-key", str(self["signer.pem"]), "-subj", "/CN=signer",
                "-out", str(self["signer.csr"]))  # fmt: skip
        openssl("x509", "-req", "-in", str(self["signer.csr"]), "-CA", str(self["root.crt"]),
                "-CAkey", str(self["root.pem"]), "-days", "9", "-extfile", str(self["usage"]),
                "-out", str(self["signer.crt"]))  # fmt: skip

    def __getitem__(self, name: str) -> Path:
        return self.folder / name

    def certify(self, name: str, *words: str) -> None:
        out = str(self[f"{name}.crt"])
        openssl("req", "-new", *words, "-days", "9", "-subj", f"/CN={name}", "-out", out)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.tpk"
    path.write_bytes(b"a model")
    return path


def pae(envelope: dict[str, Any]) -> bytes:
    """What is signed (DSSE version 1)."""
    kind, payload = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def test_openssl_verifies_what_is_signed_here(keys: Keys, model: Path, tmp_path: Path) -> None:
    sign(model, tmp_path / "s", keys["signer.pem"])
    bundle = json.loads((tmp_path / "s").read_text())
    assert bundle["mediaType"].startswith("application/vnd.dev.sigstore.bundle")
    envelope = bundle["dsseEnvelope"]
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    said = openssl("dgst", "-sha256", "-verify", str(keys["signer.pub"]),
                   "-signature", str(tmp_path / "sig"), given=pae(envelope))  # fmt: skip
    assert said == b"Verified OK\n"


def test_what_openssl_signed_is_verified_here(keys: Keys, model: Path, tmp_path: Path) -> None:
    sign(model, tmp_path / "s", keys["stranger.pem"])
    with pytest.raises(IntegrityError):
        verify_signature(model, tmp_path / "s", public_key=keys["signer.pub"])
    bundle = json.loads((tmp_path / "s").read_text())
    envelope = bundle["dsseEnvelope"]
    made = openssl("dgst", "-sha256", "-sign", str(keys["signer.pem"]), given=pae(envelope))
    envelope["signatures"][0]["sig"] = base64.b64encode(made).decode()
    bundle["verificationMaterial"].get("publicKey", {}).pop("hint", None)
    (tmp_path / "s").write_text(json.dumps(bundle))
    verify_signature(model, tmp_path / "s", public_key=keys["signer.pub"])


@pytest.mark.slow
def test_the_reference_command_and_this_agree(keys: Keys, model: Path, tmp_path: Path) -> None:
    def reference(*words: str) -> int:
        command = [sys.executable, "-m", "model_signing", *words]
        return subprocess.run(command, capture_output=True, check=False).returncode

    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    public, private = str(keys["signer.pub"]), str(keys["signer.pem"])
    sign(model, Path(ours), keys["signer.pem"])
    given = ("--signature", ours, "--public_key", public)
    assert reference("verify", "key", str(model), *given) == 0
    made = ("--signature", theirs, "--private_key", private)
    assert reference("sign", "key", str(model), *made) == 0
    verify_signature(model, Path(theirs), public_key=keys["signer.pub"])


def test_certificates_need_their_authority_alone(keys: Keys, model: Path, tmp_path: Path) -> None:
    sign(model, tmp_path / "s", keys["signer.pem"], certificate=keys["signer.crt"])
    verify_signature(model, tmp_path / "s", authorities=[keys["root.crt"]])
    with pytest.raises(IntegrityError):
        verify_signature(model, tmp_path / "s", authorities=[keys["other.crt"]])
    with pytest.raises(OptionError, match="does not match"):
        sign(model, tmp_path / "t", keys["stranger.pem"], certificate=keys["signer.crt"])


def test_changed_files_and_signatures_are_refused(keys: Keys, model: Path, tmp_path: Path) -> None:
    sign(model, tmp_path / "s", keys["signer.pem"])
    content = (tmp_path / "s").read_bytes()
    model.write_bytes(b"A model")
    with pytest.raises(IntegrityError, match="no valid signature"):
        verify_signature(model, tmp_path / "s", public_key=keys["signer.pub"])
    model.write_bytes(b"a model")
    payload = json.loads(content)["dsseEnvelope"]["payload"].encode()
    at = content.index(payload) + 40
    (tmp_path / "s").write_bytes(content[:at] + b"AAAA" + content[at + 4 :])
    with pytest.raises(IntegrityError):
        verify_signature(model, tmp_path / "s", public_key=keys["signer.pub"])
    (tmp_path / "s").write_bytes(b"{")
    with pytest.raises(IntegrityError):
        verify_signature(model, tmp_path / "s", public_key=keys["signer.pub"])
    with pytest.raises(OptionError, match="by a public key, or by authorities"):
        verify_signature(model, tmp_path / "s")


def test_keys_that_are_none_and_missing_libraries_are_told(
    keys: Keys, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OptionError, match=r"model.tpk' cannot sign 'model.tpk': expected"):
        sign(model, tmp_path / "s", model)
    with pytest.raises(OptionError, match="none"):
        sign(tmp_path / "none", tmp_path / "s", keys["signer.pem"])
    monkeypatch.setitem(sys.modules, "model_signing.signing", None)
    with pytest.raises(BackendError, match=r"model-signing is missing: .*\[secure\]"):
        sign(model, tmp_path / "s", keys["signer.pem"])


def test_commands_sign_and_verify(
    keys: Keys, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "m.mlir"
    program.write_text(
        "func.func @forward(%x: tensor<3xf32>) -> tensor<3xf32> {func.return %x : tensor<3xf32>}"
    )
    out = str(tmp_path / "m.tpk")
    made = ["--sign", str(keys["signer.pem"]), "--certificate", str(keys["signer.crt"])]
    assert cli.main(["package", str(program), "-o", out, *made]) == 0
    verify = ["verify-package", out, "--signature", f"{out}.sig", "--authority"]
    assert cli.main([*verify, str(keys["root.crt"])]) == 0
    assert cli.main([*verify, str(keys["other.crt"])]) == 1
    assert "no valid signature" in capsys.readouterr().err
    assert cli.main(["verify-package", out, "--authority", str(keys["root.crt"])]) == 2
