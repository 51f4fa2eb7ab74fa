"""The page of `caption --web`: contents, address, rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fakes.caption_command import (
    FIRST,
    SECOND,
    SOUND,
    Page,
    caption,
    made,
    pages,
)
from tests.fakes.commands import Asked, missing_data
from whisper_hailo.cli.app import run
from whisper_hailo.cli.commands import caption as module
from whisper_hailo.core.errors import DeviceError, ExitCode
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.live.sources.source import Block
from whisper_hailo.live.stream import Controls

__all__ = ["made", "pages"]


@pytest.mark.usefixtures("made")
def test_caption_web_passes_events_audio_and_settings(
    pages: list[Page], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its events, how loud the stream is, and what it can be set to."""
    words = "--web --web-port 9 --web-host 0.0.0.0 --web-allow-host a.b"
    assert caption(f"{words} --min-silence 0.3 | web-frame = 'http://c.example'") == 0
    (page,) = pages
    texts = [event.text for event in page.events if type(event).__name__ == "Completed"]
    assert texts == [FIRST, SECOND]
    assert page.statistics().words_in.total() == 4
    assert sum(audio.size for audio in page.heard) == SOUND.size
    place, named = page.made
    assert (place.host, place.port, place.tls) == ("0.0.0.0", 9, None)  # noqa: S104
    assert "a.b" in place.hosts.names
    assert "http://c.example" in place.frame_ancestors
    assert named["browser"] is None
    assert isinstance(named["controls"], Controls)
    assert named["settings"] == {"language": "en"}
    messages = capsys.readouterr().err
    assert "http://127.0.0.1:8765/\n" in messages
    assert "http://127.0.0.1:8765/?token=secret\n" in messages


@pytest.mark.usefixtures("made")
def test_caption_web_token_is_used_and_not_printed(
    pages: list[Page],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Page, "address_for_others", "http://10.0.0.2:8765/")
    assert caption("--web --web-token 0123456789") == 0
    messages = capsys.readouterr().err
    assert not missing_data(messages, "http://127.0.0.1:8765/ http://10.0.0.2:8765/")
    assert "0123456789" not in messages
    assert "secret" not in messages
    assert pages[0].made[0].access.token == "0123456789"  # noqa: S105


@pytest.mark.usefixtures("made")
def test_caption_web_cert_encrypts_page(
    pages: list[Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = Asked("encrypted")
    monkeypatch.setattr("whisper_hailo.cli.caption_options.make_tls_context", tls)
    assert caption("--web | web-cert = 'c.pem'; web-key = 'k.pem'") == 0
    assert tls.with_ == [(Path("c.pem"), Path("k.pem"), "--web-cert and --web-key")]
    assert pages[0].made[0].tls == "encrypted"


@pytest.mark.usefixtures("made")
def test_caption_mic_browser_captions_browser_audio(
    pages: list[Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    def blocks(_self: BrowserSource) -> Iterator[Block]:
        yield Block(SOUND.astype(np.float32))

    needed: list[str] = []
    monkeypatch.setattr(
        "whisper_hailo.cli.caption_options.require_extra",
        lambda extra, *_: needed.append(extra),
    )
    monkeypatch.setattr(BrowserSource, "blocks", blocks)
    assert run(["caption", "--mic", "browser", "--web"]) == 0
    assert needed == ["web"], "and none for microphones of this machine"
    (page,) = pages
    assert isinstance(page.made[1]["browser"], BrowserSource)
    assert [
        event.text for event in page.events if type(event).__name__ == "Completed"
    ] == [
        FIRST,
        SECOND,
    ]


@pytest.mark.parametrize(
    ("words", "alone"),
    [("", True), ("--json", True), ("--output a.txt", False), ("--events e.jsonl", False),
     ("--record k.flac", False), ("--web", False)],
)  # fmt: skip
@pytest.mark.usefixtures("made", "pages")
def test_caption_stdout_is_patient_beside_other_outputs(
    words: str, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []
    patient = module.patient_results

    def patient_results() -> Any:
        calls.append(True)
        return patient()

    monkeypatch.setattr(module, "patient_results", patient_results)
    assert caption(words) == 0
    assert bool(calls) is not alone


@pytest.mark.usefixtures("made")
def test_caption_web_defaults_to_localhost_port_8765(pages: list[Page]) -> None:
    assert caption("--web") == 0
    place, _ = pages[0].made
    assert (place.host, place.port) == ("127.0.0.1", 8765)
    assert place.access.rights_of(None) == ("look", "record")


@pytest.mark.parametrize("port", [0, 65535])
@pytest.mark.usefixtures("made")
def test_caption_web_port_accepts_0_to_65535(pages: list[Page], port: int) -> None:
    assert caption(f"--web --web-port {port}") == 0
    assert pages[0].made[0].port == port
    for wrong in (-1, 65536):
        assert caption(f"--web --web-port={wrong}") == 2


@pytest.mark.usefixtures("made")
def test_caption_web_port_in_use_leaves_no_file(
    tmp_path: Path, pages: list[Page], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Page) -> Page:
        raise DeviceError("the port is taken")

    monkeypatch.setattr(Page, "__enter__", refuse)
    files = f"--output {tmp_path}/a.srt --record {tmp_path}/a.flac"
    assert caption(f"--web {files}") == ExitCode.DEVICE
    assert len(pages) == 1
    assert {path.suffix for path in tmp_path.iterdir()} <= {".wav"}


@pytest.mark.usefixtures("made")
def test_caption_unwritable_output_leaves_no_other(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    files = f"--output {tmp_path}/a.srt --events {tmp_path}/file/e.jsonl"
    assert caption(files) == ExitCode.OUTPUT
    assert not (tmp_path / "a.srt").exists()
