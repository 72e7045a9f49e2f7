"""Assets of releases of a GitHub on this machine: new, there already, broken off, refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from triton_dsl import publish_to_github
from triton_dsl.ir.errors import BackendError, IntegrityError, OptionError
from triton_dsl.ir.seal import sealed
from triton_dsl.lowering.publishing import sending
from triton_dsl.tools import cli

from .local_servers import TOKEN, GitHub

CONTENT = bytes(range(256)) * 5000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "resnet18_ternary.onnx"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending.time, "sleep", lambda seconds: None)  # pyright: ignore[reportUnknownArgumentType]


def only(github: GitHub) -> tuple[int, str, bytes]:
    ((release, facts, data),) = github.assets.values()
    return release, facts["name"], data


def test_a_release_is_made_with_its_asset(github: GitHub, file: Path) -> None:
    address = publish_to_github(
        model_path=str(file),
        repo="o/r",
        tag="v1.0.0",
        release_name="ResNet-18 Ternary Quantized",
        description="CIFAR-10 trained",
        token=TOKEN,
    )
    assert address == f"{github.address}/o/r/releases/download/1/{file.name}"
    assert only(github) == (1, file.name, CONTENT)
    release = github.releases[1]
    assert release["name"] == "ResNet-18 Ternary Quantized"
    assert release["body"] == "CIFAR-10 trained" and release["tag_name"] == "v1.0.0"


def test_a_release_that_exists_keeps_its_text(github: GitHub, file: Path) -> None:
    github.release(tag_name="v1", name="Mine", body="")
    for index in range(150):  # the asset is not on the first page
        github.asset(1, f"other{index}", b"")
    github.asset(1, file.name, CONTENT)
    publish_to_github(file, "o/r", "v1", "Another")
    assert len(github.releases) == 1 and github.releases[1]["name"] == "Mine"
    assert not [line for line in github.asked if line.startswith(("POST", "DELETE"))]


def test_an_asset_of_other_content_is_replaced_on_request_alone(github: GitHub, file: Path) -> None:
    github.release(tag_name="v1", name="v1", body="")
    github.asset(1, file.name, b"older")
    with pytest.raises(OptionError, match="has another"):
        publish_to_github(file, "o/r", "v1")
    assert only(github)[2] == b"older"
    publish_to_github(file, "o/r", "v1", replace=True)
    assert only(github)[2] == CONTENT


def test_what_is_left_of_a_broken_upload_is_sent_again(github: GitHub, file: Path) -> None:
    github.release(tag_name="v1", name="v1", body="")
    github.asset(1, file.name, CONTENT[:99], state="starter")
    github.breaks = {"assets?name=": 2}
    publish_to_github(file, "o/r", "v1")
    assert github.breaks == {"assets?name=": 0}
    assert only(github) == (1, file.name, CONTENT)


def test_a_server_with_trouble_is_asked_again(github: GitHub, file: Path) -> None:
    answers = [502, 429, 0]
    github.on_upload = lambda _: answers.pop(0)
    publish_to_github(file, "o/r", "v1")
    assert only(github)[2] == CONTENT
    github.on_upload = lambda _: 503
    file.write_bytes(b"another")
    with pytest.raises(BackendError, match="503 Service Unavailable"):
        publish_to_github(file, "o/r", "v2", attempts=3)


def test_a_file_that_changes_meanwhile_is_not_left_there(github: GitHub, file: Path) -> None:
    answers = [502, 0]

    def change(_: object) -> int:
        file.write_bytes(b"another")
        return answers.pop(0)

    github.on_upload = change
    with pytest.raises(IntegrityError, match="changed while it was sent"):
        publish_to_github(file, "o/r", "v1")
    assert not github.assets


def test_refusals_say_what_to_do_and_never_the_token(
    github: GitHub, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for token in ("ghp_wrong", "ghp_wrong\n", "ghp_w\u00e4rong"):
        with pytest.raises(BackendError) as refused:
            publish_to_github(file, "o/r", "v1", token=token)
        assert token.strip() not in str(refused.value)
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_wrong")
    words = ["-v", "publish", "github", str(file), "o/r"]
    assert cli.main([*words, "--tag", "v1"]) == 1
    told = capsys.readouterr()
    assert "refuses the token" in told.err and "ghp_wrong" not in told.err + told.out
    assert cli.main(words) == 2
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    assert cli.main([*words, "--tag", "v1"]) == 0
    address = capsys.readouterr().out.strip()
    assert file.name in address
    assert cli.main([*words, "--tag", "v1", "--replace", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"address": address}
    for repo, tag in (("o", "v1"), ("o/r/../x", "v1"), ("o/r", "../../x"), ("o/r", "a b")):
        with pytest.raises(OptionError):
            publish_to_github(file, repo, tag)
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    with pytest.raises(BackendError, match="GitHub and 'o/r'"):
        publish_to_github(file, "o/r", "v1", attempts=2)


def test_damaged_files_and_folders_are_not_published(github: GitHub, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(sealed(".onnx", b"model")[:-1] + b"L")
    with pytest.raises(IntegrityError):
        publish_to_github(path, "o/r", "v1")
    with pytest.raises(OptionError, match="as a package"):
        publish_to_github(tmp_path, "o/r", "v1")
    assert not github.releases
