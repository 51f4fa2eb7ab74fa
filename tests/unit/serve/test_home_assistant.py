from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from whisper_hailo.core.errors import OptionError
from whisper_hailo.serve.home_assistant import (
    BONUS,
    HomeAssistantError,
    HomeAssistantNames,
    fetch_names,
)
from whisper_hailo.serve.options import HomeAssistantOptions
from whisper_hailo.serve.request import Choices
from whisper_hailo_lab.experiments.invented_home import TOKEN, Home, home_assistant_api

HOME = Home(
    areas={"Scullery": ["Back kitchen"], "Snug": []},
    floors={"Mezzanine": []},
    entities={
        "light.a": ["Gutmann  lamp", "Gutmann", None],
        "switch.b": ["Secret"],
        "light.c": ["Snug"],
    },
    hidden={"switch.b"},
)
NAMES = ("Mezzanine", "Scullery", "Back kitchen", "Snug", "Gutmann lamp", "Gutmann")


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def test_fetch_names_gives_those_that_are_said(token_file: Path) -> None:
    with home_assistant_api(HOME) as address:
        options = HomeAssistantOptions(address, token_file)
        assert asyncio.run(fetch_names(options)) == NAMES


def test_fetch_names_without_floors_gives_the_others(token_file: Path) -> None:
    home = Home(areas={"Snug": []}, unknown={"config/floor_registry/list"})
    with home_assistant_api(home) as address:
        options = HomeAssistantOptions(f"{address}/", token_file)
        assert asyncio.run(fetch_names(options)) == ("Snug",)


def test_fetch_names_with_a_wrong_token_is_refused(token_file: Path) -> None:
    token_file.write_text("another")
    with (
        home_assistant_api(HOME) as address,
        pytest.raises(HomeAssistantError, match="token"),
    ):
        asyncio.run(fetch_names(HomeAssistantOptions(address, token_file)))


async def load(names: HomeAssistantNames) -> None:
    """Refresh names, and wait for it."""
    names.refresh()
    assert names._loading is not None
    await names._loading


def test_refresh_reads_again_only_what_is_old(
    token_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(areas={"Snug": []})

    async def refresh_thrice(names: HomeAssistantNames) -> None:
        await load(names)
        await load(names)  # they are fresh
        assert home.n_logins == 1
        home.areas["Belfry"] = []
        monkeypatch.setattr(names, "_fresh_until_s", 0.0)
        await load(names)
        assert home.n_logins == 2

    with home_assistant_api(home) as address:
        names = HomeAssistantNames(HomeAssistantOptions(address, token_file))
        asyncio.run(refresh_thrice(names))
    assert names.add_to(Choices(), None).hotwords == "Snug, Belfry, snug, belfry"


def test_refresh_keeps_names_of_a_home_that_is_away(
    token_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with home_assistant_api(HOME) as address:
        names = HomeAssistantNames(HomeAssistantOptions(address, token_file))
        asyncio.run(load(names))
    monkeypatch.setattr(names, "_fresh_until_s", 0.0)
    with caplog.at_level(logging.WARNING):
        asyncio.run(load(names))
        asyncio.run(load(names))
    lowered = [name.lower() for name in NAMES]
    assert names.add_to(Choices(), None).hotwords == ", ".join([*NAMES, *lowered])
    assert len(caplog.records) == 1
    assert TOKEN not in caplog.text


def test_add_to_puts_names_behind_what_is_given(token_file: Path) -> None:
    choices = Choices(hotwords="Anna, Ben")
    with home_assistant_api(Home(areas={"Snug": []})) as address:
        names = HomeAssistantNames(HomeAssistantOptions(address, token_file))
        assert names.add_to(choices, "Carl") == choices
        asyncio.run(load(names))
    both = names.add_to(choices, "Carl")
    assert (both.hotwords, both.hotword_bonus) == ("Anna, Ben, Snug, snug", BONUS)
    assert names.add_to(Choices(), "Carl Dora").hotwords == "Carl, Dora, Snug, snug"


def test_refresh_without_an_address_does_nothing() -> None:
    names = HomeAssistantNames(HomeAssistantOptions())

    async def refresh() -> None:
        names.refresh()

    asyncio.run(refresh())
    names.close()
    assert names.add_to(Choices(), "Carl") == Choices()


@pytest.mark.parametrize("address", ["home:8123", "ftp://home", "http://"])
def test_options_refuse_what_is_no_address(address: str, token_file: Path) -> None:
    with pytest.raises(OptionError, match="--home-assistant is"):
        HomeAssistantOptions(address, token_file)


def test_options_refuse_an_address_without_a_token() -> None:
    with pytest.raises(OptionError, match="both"):
        HomeAssistantOptions("http://home:8123")


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("http://home:8123", "ws://home:8123/api/websocket"),
        ("https://home.example/", "wss://home.example/api/websocket"),
        ("http://supervisor/core", "ws://supervisor/core/api/websocket"),
    ],
)
def test_websocket_url_follows_the_address(
    address: str, url: str, token_file: Path
) -> None:
    assert HomeAssistantOptions(address, token_file).websocket_url == url
