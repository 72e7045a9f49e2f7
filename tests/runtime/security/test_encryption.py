"""Encrypted files beside OpenSSL's command line, which knows AES, its key wrap and scrypt.

The command has no AEAD ciphers: blocks are AES-CTR by it, and their tags GHASH (NIST SP 800-38D) of
plain integers here.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from triton_dsl import build_package, load_package
from triton_dsl.ir.errors import BackendError, IntegrityError, OptionError
from triton_dsl.lowering.packages.archive import to_archive
from triton_dsl.runtime.security import encryption
from triton_dsl.runtime.security.encryption import Key, decrypt, encrypt, key_from
from triton_dsl.tools import cli

MAGIC = b"triton-dsl encrypted 1\n"
PASSPHRASE = "correct horse battery staple"


def openssl(*words: str, given: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *words], input=given, capture_output=True, check=True).stdout


def unwrapped(wrapping: bytes, wrapped: bytes, *, back: bool = False) -> bytes:
    iv = "A6A6A6A6A6A6A6A6"
    way = "-e" if back else "-d"
    return openssl("enc", "-id-aes256-wrap", way, "-K", wrapping.hex(), "-iv", iv, given=wrapped)


def derived(how: dict[str, object]) -> bytes:
    words = [f"{name}:{how[name]}" for name in ("n", "r", "p")]
    words += [f"pass:{PASSPHRASE}", f"hexsalt:{how['salt']}"]
    options = [word for text in words for word in ("-kdfopt", text)]
    return openssl("kdf", "-keylen", "32", "-binary", *options, "SCRYPT")


def times(a: int, b: int) -> int:
    product = 0
    for bit in range(127, -1, -1):
        if b >> bit & 1:
            product ^= a
        a = (a >> 1) ^ (0xE1 << 120 if a & 1 else 0)
    return product


def gcm(key: bytes, nonce: bytes, content: bytes, bound: bytes, *, opened: bool) -> bytes:
    """AES-256-GCM: what `content` becomes, with the tag behind it where it is encrypted."""

    def counted(start: int, data: bytes) -> bytes:
        iv = (nonce + start.to_bytes(4, "big")).hex()
        return openssl("enc", "-aes-256-ctr", "-K", key.hex(), "-iv", iv, given=data)

    body = content[:-16] if opened else content
    other = counted(2, body) if body else b""
    cipher = body if opened else other
    h = int.from_bytes(
        openssl("enc", "-aes-256-ecb", "-nopad", "-K", key.hex(), given=bytes(16)), "big"
    )
    padded = [part + bytes(-len(part) % 16) for part in (bound, cipher)]
    lengths = (8 * len(bound)).to_bytes(8, "big") + (8 * len(cipher)).to_bytes(8, "big")
    hashed = b"".join(padded) + lengths
    y = 0
    for at in range(0, len(hashed), 16):
        y = times(y ^ int.from_bytes(hashed[at : at + 16], "big"), h)
    tag = counted(1, y.to_bytes(16, "big"))
    assert not opened or tag == content[-16:]
    return other if opened else cipher + tag


def test_gcm_of_the_test_is_that_of_the_standard() -> None:
    # Test case 16 of McGrew and Viega's GCM specification.
    key = bytes.fromhex("feffe9928665731c6d6a8f9467308308" * 2)
    nonce = bytes.fromhex("cafebabefacedbaddecaf888")
    plain = bytes.fromhex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449"
        "a6b525b16aedf5aa0de657ba637b39"
    )
    bound = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    sealed = gcm(key, nonce, plain, bound, opened=False)
    assert sealed[-16:].hex() == "76fc6ece0f4e1768cddf8853bb2d551b"


def opened(file: bytes, key: Key) -> bytes:
    return b"".join(decrypt(io.BytesIO(file), key, "it"))


@pytest.mark.parametrize("kind", ["key", "passphrase"])
def test_openssl_reads_what_is_encrypted_here(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "BLOCK", 1000)
    key = Key(os.urandom(32)) if kind == "key" else Key(PASSPHRASE.encode(), is_passphrase=True)
    content = os.urandom(2500)
    file = encrypt(content, key)
    magic, line, rest = file.split(b"\n", 2)
    header = json.loads(line)
    how = header["key"]
    wrapping = key.secret if kind == "key" else derived(how)
    data_key = unwrapped(wrapping, bytes.fromhex(how["wrapped"]))
    lines = magic + b"\n" + line + b"\n"
    found = b""
    parts = [rest[at : at + 1016] for at in range(0, len(rest), 1016)]
    for index, part in enumerate(parts):
        bound = index.to_bytes(8, "big") + bytes([index == len(parts) - 1]) + lines
        found += gcm(data_key, index.to_bytes(12, "big"), part, bound, opened=True)
    assert found == content


@pytest.mark.parametrize("kind", ["key", "passphrase"])
def test_what_openssl_encrypted_is_read_here(kind: str) -> None:
    content, data_key, secret = os.urandom(1700), os.urandom(32), os.urandom(32)
    how: dict[str, object] = {"method": "key"}
    if kind == "passphrase":
        how = {"method": "scrypt", "n": 1024, "r": 8, "p": 2, "salt": os.urandom(8).hex()}
        secret = derived(how)
    how["wrapped"] = unwrapped(secret, data_key, back=True).hex()
    header = json.dumps({"block": 800, "key": how, "cipher": "AES-256-GCM"})
    lines = MAGIC + header.encode() + b"\n"
    file = lines
    for index in range(3):
        part = content[800 * index : 800 * (index + 1)]
        bound = index.to_bytes(8, "big") + bytes([index == 2]) + lines
        file += gcm(data_key, index.to_bytes(12, "big"), part, bound, opened=False)
    key = Key(secret) if kind == "key" else Key(PASSPHRASE.encode(), is_passphrase=True)
    assert opened(file, key) == content


def test_every_flipped_bit_and_every_moved_block_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encryption, "BLOCK", 500)
    key, content = Key(os.urandom(32)), os.urandom(1700)
    file = encrypt(content, key)
    missed: list[int] = []
    for bit in np.random.default_rng(0).integers(8 * len(file), size=1500).tolist():
        changed = bytearray(file)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            opened(bytes(changed), key)
        except IntegrityError:
            continue
        missed.append(bit)
    assert not missed
    start = file.index(b"}\n") + 2
    parts = [file[at : at + 516] for at in range(start, len(file), 516)]
    lines = file[:start]
    another = encrypt(content, key)
    for wrong in (
        [parts[1], parts[0], *parts[2:]],
        parts[:-1],
        [*parts, parts[-1]],
        [another[-len(file) + start :][:516], *parts[1:]],
        [],
    ):
        with pytest.raises(IntegrityError):
            opened(lines + b"".join(wrong), key)
    for size in (0, 5, 30, start - 1, start, len(file) - 1):
        with pytest.raises(IntegrityError):
            opened(file[:size], key)


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 2000])
def test_any_length_comes_back(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "BLOCK", 1000)
    key, content = Key(os.urandom(32)), os.urandom(size)
    assert opened(encrypt(content, key), key) == content


def test_blocks_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "BLOCK", 1000)
    key = Key(os.urandom(32))
    file = io.BytesIO(encrypt(bytes(100_000), key))
    first = next(decrypt(file, key, "it"))
    assert len(first) == 1000 and file.tell() < 4000


def test_wrong_and_costly_keys_are_refused() -> None:
    key = Key(os.urandom(32))
    file = encrypt(b"x", key)
    for other in (Key(os.urandom(32)), Key(b"pass", is_passphrase=True)):
        with pytest.raises(IntegrityError, match="another key"):
            opened(file, other)
    phrase = Key(b"pass", is_passphrase=True)
    costly = encrypt(b"x", phrase).replace(b'"n": 32768', b'"n": 1073741824')
    with pytest.raises(IntegrityError):
        opened(costly, phrase)
    assert "pass" not in repr(phrase)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"block": 1048576', '"block": Infinity'), ('"block": 1048576', '"block": []'),
        ('"n": 32768', '"n": Infinity'), ('"n": 32768', '"n": []'), ('"n": 32768', '"n": NaN'),
        ('"n": 32768', '"m": 1'), ('"salt": "', '"salt": 5, "pepper": "'),
        ('"wrapped": "', '"wrapped": "z'), ('"cipher": "AES-256-GCM"', '"cipher": null'),
    ],
)  # fmt: skip
def test_heads_from_whoever_are_refused(old: str, new: str) -> None:
    phrase = Key(b"pass", is_passphrase=True)
    file = encrypt(b"x", phrase)
    assert old.encode() in file
    with pytest.raises(IntegrityError):
        opened(file.replace(old.encode(), new.encode(), 1), phrase)


def test_key_files(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(bytes(range(32)))
    path.chmod(0o600)
    assert key_from(path).secret == bytes(range(32))
    path.write_text(bytes(range(32)).hex() + "\n")
    assert key_from(path).secret == bytes(range(32))
    path.write_text("too short")
    with pytest.raises(OptionError, match="no key of 32 bytes"):
        key_from(path)
    path.chmod(0o644)
    with pytest.raises(OptionError, match="open to others"):
        key_from(path)
    with pytest.raises(OptionError, match="No such file"):
        key_from(tmp_path / "none")
    with pytest.raises(OptionError, match="needed"):
        key_from(None)


def test_a_missing_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.keywrap", None)
    with pytest.raises(BackendError, match=r"cryptography is missing: .*\[secure\]"):
        encrypt(b"", Key(bytes(32)))


def test_an_encrypted_package_runs_and_is_never_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.tri").write_text(
        "layer L { param w: Tensor[3]\n fn forward(x: Tensor[N, 3]) -> Tensor[N, 3] "
        "{ return x * w } }"
    )
    weights = {"w": np.array([1, 2, 3], np.float32)}
    archive = to_archive(build_package(tmp_path / "m.tri", ["pytorch"], weights=weights))
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    path = tmp_path / "e.tpk"
    path.write_bytes(encrypt(archive, key_from(key)))
    monkeypatch.delenv("TRITON_PASSPHRASE", raising=False)
    assert cli.main(["run", str(path)]) == 1
    assert "TRITON_KEY_FILE" in capsys.readouterr().err

    written: list[str] = []

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and watching and str(arguments[1]).strip("rb") not in ("", "None"):
            written.append(str(arguments[0]))

    watching = True
    sys.addaudithook(watch)
    try:
        package = load_package(path, key_from(key))
        (result,) = package.run([np.ones((1, 3), np.float32)], "pytorch")
        module = package.module()
    finally:
        watching = False
    np.testing.assert_array_equal(result, [[1, 2, 3]])
    assert module is not None and not written
    monkeypatch.setenv("TRITON_KEY_FILE", str(key))
    assert cli.main(["verify-package", str(path)]) == 0
    assert hashlib.sha256(archive).digest() not in path.read_bytes() and b"PK" not in archive[:0]
