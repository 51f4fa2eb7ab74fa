"""Keys and certificates, renewed from their files."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.fakes.micro_service import MicroService
from whisper_hailo.serve import credentials
from whisper_hailo.serve.credentials import Credentials
from whisper_hailo.serve.options import SafetyOptions


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text("first\n", encoding="utf-8")
    return path


def test_credentials_keys_are_renewed_in_place(
    key_file: Path, micro: MicroService
) -> None:
    from starlette.testclient import TestClient

    from whisper_hailo.serve.app import make_app

    safety = SafetyOptions(api_key=("fixed",), api_key_file=key_file)
    renewed = Credentials(safety)
    app = make_app(micro.service, "127.0.0.1", safety, renewed.keys)
    web = TestClient(app, "http://127.0.0.1:8000")

    def accepted() -> list[str]:
        keys = ("fixed", "first", "second")
        headers = [{"Authorization": f"Bearer {key}"} for key in keys]
        answers = [web.get("/v1/models", headers=header) for header in headers]
        pairs = zip(keys, answers, strict=True)
        return [key for key, answer in pairs if answer.status_code == 200]

    assert accepted() == ["fixed", "first"]
    key_file.write_text("second\n", encoding="utf-8")
    renewed.renew()
    assert accepted() == ["fixed", "second"]


def test_credentials_unusable_file_changes_nothing(
    key_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    renewed = Credentials(SafetyOptions(api_key_file=key_file))
    key_file.write_text("# none\n", encoding="utf-8")
    renewed.renew()
    assert renewed.keys == ["first"]
    assert str(key_file) in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING


def test_credentials_changed_file_is_noticed(
    key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_CHECK_INTERVAL_S", 0.001)
    renewed = Credentials(SafetyOptions(api_key_file=key_file))

    async def change() -> None:
        renewing = asyncio.create_task(renewed.renew_on_change())
        key_file.write_text("another\n", encoding="utf-8")
        async with asyncio.timeout(60):
            while renewed.keys == ["first"]:
                await asyncio.sleep(0.001)
        renewing.cancel()

    asyncio.run(change())
    assert renewed.keys == ["another"]


@pytest.mark.parametrize("in_file", [True, False])
def test_credentials_can_renew_what_is_in_files(
    key_file: Path, *, in_file: bool
) -> None:
    safety = SafetyOptions(api_key=("k",), api_key_file=key_file if in_file else None)
    assert Credentials(safety).can_renew is in_file
