"""What the routes of the caption page share with the thread that serves it."""

from __future__ import annotations

from dataclasses import dataclass

from whisper_hailo.live.sources.network import BrowserSource
from whisper_hailo.live.stream import Controls
from whisper_hailo.serve.routes.captions.access import PageAddress
from whisper_hailo.serve.routes.captions.feeds import Broadcast


@dataclass(frozen=True, slots=True)
class PageState:
    """What the page shows, what its users may change, and who they are.

    Attributes:
        broadcast: used by the server's thread only.
        browser: source that a browser's microphone feeds; `None` if none may.
    """

    address: PageAddress
    broadcast: Broadcast
    controls: Controls
    browser: BrowserSource | None = None
