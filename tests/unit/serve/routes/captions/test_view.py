"""The caption page over real sockets: its files, its addresses and its events."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.fakes.page_server import (
    PATIENCE_S,
    completed,
    connect,
    needs_web,
    partial,
    told,
)
from whisper_hailo.core.errors import OptionError
from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.live.statistics import CaptionStatistics
from whisper_hailo.serve.routes.captions.access import format_frame_ancestors


def test_page_files_are_served_with_safe_headers(
    served: tuple[Any, BrowserSource],
) -> None:
    view, _ = served
    for name, inside, kind in (
        ("", b'role="log"', "text/html"),
        ("page.js", b"import", "text/javascript"),
        ("connection.js", b"WebSocket", "text/javascript"),
        ("page.css", b"--ground", "text/css"),
        ("recorder.js", b"registerProcessor", "text/javascript"),
    ):
        address = view.address + name
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as response:  # noqa: S310
            assert inside in response.read()
            assert response.headers.get_content_type() == kind
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Referrer-Policy"] == "no-referrer", (
                "it has the token"
            )
            assert response.headers["Cache-Control"] == "no-cache", (
                "another version may follow"
            )
            policy = response.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert policy.endswith("frame-ancestors 'none'")


def test_page_policy_allows_styles_in_overlay_only(
    served: tuple[Any, BrowserSource],
) -> None:
    view, _ = served
    for query, has_theirs in (("", False), ("?overlay=0", False), ("?overlay=1", True)):
        address = view.address + query
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as response:  # noqa: S310
            policy = response.headers["Content-Security-Policy"]
        assert ("style-src 'self' 'unsafe-inline';" in policy) == has_theirs
        assert ("require-trusted-types-for" in policy) != has_theirs
        assert "script-src 'self';" in policy
        assert policy.endswith("; frame-ancestors 'none'")


@pytest.mark.parametrize(
    ("host", "lan_address", "local_address", "others"),
    [
        ("127.0.0.1", "10.0.0.7", "http://127.0.0.1:8765/", ""),
        ("0.0.0.0", "10.0.0.7", "http://127.0.0.1:8765/", "http://10.0.0.7:8765/"),  # noqa: S104
        ("0.0.0.0", None, "http://127.0.0.1:8765/", ""),  # noqa: S104
        ("::", "fd00::7", "http://[::1]:8765/", "http://[fd00::7]:8765/"),
        ("10.0.0.9", "10.0.0.7", "http://10.0.0.9:8765/", ""),
    ],
)
def test_view_addresses_can_be_opened_in_a_browser(
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    lan_address: str | None,
    local_address: str,
    others: str,
) -> None:
    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

    monkeypatch.setattr(
        "whisper_hailo.serve.routes.captions.view.find_own_address",
        lambda _: lan_address,
    )
    view = WebView(CaptionStatistics, PageAddress(host))
    assert view.address == local_address
    assert view.address_for_others == others


def test_page_address_decides_public_rights() -> None:
    from whisper_hailo.serve.routes.captions.access import PageAddress

    local = PageAddress()
    everywhere = PageAddress("0.0.0.0", names=["captions.example"])  # noqa: S104 - nothing listens
    assert local.access.rights_of(None) == ("look", "record")
    assert everywhere.access.rights_of(None) == ("look",)
    assert "captions.example" in everywhere.hosts.names - local.hosts.names


def test_page_policy_lists_frame_ancestors() -> None:
    needs_web()
    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

    origins = ("http://homeassistant.local:8123", "HTTPS://Wall.example/")
    with (
        WebView(CaptionStatistics, PageAddress(port=0, framed_by=origins)) as view,
        urllib.request.urlopen(view.address, timeout=PATIENCE_S) as response,  # noqa: S310
    ):
        policy = response.headers["Content-Security-Policy"]
    named = "http://homeassistant.local:8123 https://wall.example"
    assert policy.endswith(f"; frame-ancestors {named}")


@pytest.mark.parametrize(
    "given",
    [
        "",
        "*",
        "homeassistant.local",
        "file:///x",
        "http://",
        "http://a b",
        "https://a;b",
        "ftp://wall.example",
        "://wall.example",
    ],
)
def test_format_frame_ancestors_without_origin_raises(given: str) -> None:
    with pytest.raises(OptionError, match="web-frame"):
        format_frame_ancestors([given])


def test_view_level_is_sent_per_eighth_of_a_second(
    served: tuple[Any, BrowserSource],
) -> None:
    view, _ = served
    with connect(view, "events") as page:
        told(page, "snapshot")
        for _ in range(2):
            # Together enough for one reading.
            view.put_audio(np.full(1000, 0.1, np.float32))
        assert json.loads(page.recv()) == {"event": "level", "level_db": -20.0}
        view.put_audio(np.zeros(2000, np.float32))
        assert json.loads(page.recv()) == {"event": "level", "level_db": -90.0}


def test_event_socket_without_events_sends_still(
    served: tuple[Any, BrowserSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "whisper_hailo.serve.routes.captions.event_socket.STILL_S", 0.01
    )
    with connect(served[0], "events") as page:
        told(page, "snapshot")
        assert json.loads(page.recv()) == {"event": "still"}


def test_event_socket_reconnected_page_gets_history(
    served: tuple[Any, BrowserSource],
) -> None:
    view, _ = served
    with connect(view, "events") as first:
        assert [json.loads(first.recv())["event"] for _ in range(2)] == [
            "hello",
            "snapshot",
        ]
        view.put(partial(0, " so"))
        view.put(completed(0))
        kinds = [json.loads(first.recv())["event"] for _ in range(3)]
        assert kinds == ["partial", "completed", "figures"]
    view.put(completed(1))
    with connect(view, "events") as again:
        _, snapshot = (json.loads(again.recv()) for _ in range(2))
    assert [event["text"] for event in snapshot["completed"]] == ["said0", "said1"]
    assert snapshot["browser_microphone"]


def test_event_socket_closed_page_is_removed_at_once(
    served: tuple[Any, BrowserSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "whisper_hailo.serve.routes.captions.event_socket.STILL_S", 10.0 * PATIENCE_S
    )
    view, _ = served
    disconnected = threading.Event()
    leave = view.broadcast.remove_client

    def noted(client: object) -> None:
        leave(client)
        disconnected.set()

    monkeypatch.setattr(view.broadcast, "remove_client", noted)
    with connect(view, "events") as page:
        told(page, "snapshot")
        assert view.broadcast.n_clients == 1
    assert disconnected.wait(PATIENCE_S)
    assert view.broadcast.n_clients == 0


def test_view_figures_have_latency_and_speed() -> None:
    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

    statistics = CaptionStatistics(
        n_segment_samples=32_000, compute_s=0.5, behind_s=1.26
    )
    view = WebView(lambda: statistics, PageAddress())
    assert view.make_figures() == {
        "final_latency_s": None,
        "rtfx": 4.0,
        "behind_s": 1.3,
    }
    for seconds in (9.0, 5.0, 0.123456):
        statistics.final_latency_s.append(seconds)
    assert view.make_figures()["final_latency_s"] == 0.1235


def test_view_open_waits_for_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_web()
    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

    waited_for = threading.Event()

    class Ready(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited_for.set()
            return super().wait(timeout)

    class Late(threading.Thread):
        def run(self) -> None:
            waited_for.wait(PATIENCE_S)
            super().run()

    names = SimpleNamespace(Event=Ready, Thread=Late)
    monkeypatch.setattr("whisper_hailo.serve.routes.captions.view.threading", names)
    with WebView(CaptionStatistics, PageAddress(port=0)) as view:
        view.put(completed(0))
        waited_for.set()
    assert [event["text"] for event in view.broadcast.summary()[0]["completed"]] == [
        "said0"
    ]


def test_view_not_open_ignores_events() -> None:
    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

    view = WebView(CaptionStatistics, PageAddress(port=0))
    view.put(completed(0))
    view.put_audio(np.full(4000, 0.5, np.float32))
    view.close()
    assert view.broadcast.summary()[0]["completed"] == []


def test_view_close_sends_end_before_closing_sockets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needs_web()
    from websockets.exceptions import ConnectionClosed

    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

    monkeypatch.setattr(
        "whisper_hailo.serve.routes.captions.view.END_POLLS", 200 * PATIENCE_S
    )
    monkeypatch.setattr(
        "whisper_hailo.serve.routes.captions.view.CLOSE_TIMEOUT_S", PATIENCE_S
    )
    view = WebView(CaptionStatistics, PageAddress(port=0)).open()
    with connect(view, "events") as page:
        assert [json.loads(page.recv())["event"] for _ in range(2)] == [
            "hello",
            "snapshot",
        ]
        view.put(completed(0))
        view.close()
        view.close()
        kinds = [json.loads(page.recv())["event"] for _ in range(3)]
        assert kinds == ["completed", "figures", "end"]
        with pytest.raises(ConnectionClosed, match="1000"):
            page.recv()
    assert not any(thread.name == "caption-web" for thread in threading.enumerate())


def test_page_foreign_host_or_origin_is_refused(
    served: tuple[Any, BrowserSource],
) -> None:
    from websockets.exceptions import InvalidStatus

    view, _ = served
    with (
        pytest.raises(InvalidStatus),
        connect(view, "events", origin="http://evil.example"),
    ):
        pass
    request = urllib.request.Request(view.address, headers={"Host": "evil.example"})  # noqa: S310
    with pytest.raises(urllib.error.HTTPError, match="421") as refused:
        urllib.request.urlopen(request, timeout=PATIENCE_S)  # noqa: S310
    refused.value.close()


def test_view_open_at_used_address_raises(served: tuple[Any, BrowserSource]) -> None:
    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

    view, _ = served
    port = int(view.address.rsplit(":", 1)[1].strip("/"))
    with (
        pytest.raises(OptionError, match="--web-port"),
        WebView(CaptionStatistics, PageAddress(port=port)),
    ):
        pass


def test_microphone_without_browser_source_is_refused() -> None:
    needs_web()
    from websockets.exceptions import InvalidStatus

    from whisper_hailo.serve.routes.captions.access import PageAddress
    from whisper_hailo.serve.routes.captions.view import WebView

    with (
        WebView(CaptionStatistics, PageAddress(port=0)) as view,
        pytest.raises(InvalidStatus, match="403"),
        connect(view, "audio"),
    ):
        pass
