"""The tests of this folder compare with OpenSSL's command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture(scope="session", autouse=True)
def openssl_is_there(require_tool: Callable[[str, str], str]) -> None:
    require_tool("openssl", "apt-get install openssl")
