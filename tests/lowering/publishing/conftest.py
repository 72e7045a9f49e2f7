"""A Hub and a GitHub of this machine, in place of the real ones."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path

import pytest

from .local_servers import TOKEN, GitHub, Hub, running


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Hub]:
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    service = Hub()
    with running(service):
        monkeypatch.setenv("HF_ENDPOINT", service.address)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield service


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Generator[GitHub]:
    service = GitHub()
    with running(service):
        monkeypatch.setenv("GITHUB_API_URL", service.address)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        yield service


@pytest.fixture(autouse=True)
def no_log_afterwards() -> Generator[None]:
    """What `triton -v` writes to stays with the process: here it is a stream of the test."""
    logger = logging.getLogger("triton_dsl")
    handlers, level = [*logger.handlers], logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)
