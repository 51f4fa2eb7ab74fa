"""Draws the pictures of the documents' pages: python -m tests.e2e.pictures [NAME...].

`captions` is the page of captions, `page` the server's, which needs the speaker models of
WHISPER_HAILO_SPEAKERS, and `subtitles` a frame of a video with a cue as Chromium shows it.
"""

from __future__ import annotations

import base64
import io
import os
import sys
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import av
import numpy as np
from PIL import Image, ImageDraw

from tests.e2e.browser import browser, opened
from tests.e2e.conftest import ASSETS, ROOT
from tests.e2e.serving import give, saying, serve, stage
from tests.e2e.two_speakers import MODELS, write_talk
from whisper_hailo import Transcriber
from whisper_hailo.text.formats import render

FOLDER: Final = ROOT / "docs" / "img"
SCREENS: Final = ((1280, 720, "dark"), (360, 720, "light"))
"""A wall and a phone, side by side."""

GAP: Final = 16

FRAME: Final = (960, 540)
FRAMES_PER_SECOND: Final = 2
CUE_S: Final = 5.0
"""Time of the frame in the recording of Kennedy."""

SHOW_VIDEO: Final = """
async ([video, subtitles, time]) => {
  const address = (text, type) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return URL.createObjectURL(new Blob([bytes], { type }));
  };
  document.body.style.margin = 0;
  document.body.innerHTML = "<video muted><track default></video>";
  const element = document.querySelector("video");
  const track = document.querySelector("track");
  track.src = address(subtitles, "text/vtt");
  track.track.mode = "showing";
  element.src = address(video, "video/webm");
  await new Promise((resolve) => { track.onload = resolve; });
  element.currentTime = time;
  await new Promise((resolve) => { element.onseeked = resolve; });
}
"""


def draw_captions() -> Image.Image:
    """Return the page of captions on each screen while somebody speaks."""
    pictures = []
    with stage() as view, browser() as chromium:
        view.put(
            saying(give(view), "Let me show you what a second", "of delay does to a")
        )
        for width, height, scheme in SCREENS:
            viewport = {"width": width, "height": height}
            options = {
                "viewport": viewport,
                "color_scheme": scheme,
                "reduced_motion": "reduce",
            }
            page = opened(chromium, view.address, **options)
            page.wait_for_selector("#running .tentative")
            view.put_audio(np.full(2000, 0.05, np.float32))
            page.wait_for_function(
                "() => document.querySelector('#level span').style.transform !== 'scaleX(0)'"
            )
            pictures.append(_screenshot(page))
    whole = Image.new(
        "RGB", (sum(p.width for p in pictures) + GAP, pictures[0].height), "#808080"
    )
    left = 0
    for picture in pictures:
        whole.paste(picture, (left, 0))
        left += picture.width + GAP
    return whole


def draw_page() -> Image.Image:
    """Return the server's page while it plays a recording of two people."""
    options = ("--model", "base", "--speaker-models", MODELS)
    with (
        serve(dict(os.environ), "--http", "127.0.0.1:0", *options) as served,
        browser() as chromium,
        tempfile.TemporaryDirectory() as folder,
    ):
        address = served.wait_for(r"serving at (http\S+)")
        page = opened(chromium, address, viewport={"width": 1000, "height": 860})
        page.wait_for_selector("html[data-ready]")
        page.get_by_label("Model").select_option("base")
        page.get_by_label("Speakers").select_option("2")
        page.get_by_label("Names, in order").fill("Kennedy, Anna")
        recording = write_talk(Path(folder) / "talk.wav")
        page.get_by_label("Choose recordings").set_input_files(recording)
        page.wait_for_selector("article .files:not([hidden])")
        page.wait_for_selector("audio:not([hidden])")
        page.evaluate("() => { document.querySelector('audio').currentTime = 2.5; }")
        page.wait_for_selector("li[aria-current]")
        return _screenshot(page)


def draw_subtitles() -> Image.Image:
    """Return a frame of a video with a cue of Kennedy's speech."""
    with Transcriber.from_model("tiny.en") as transcriber:
        transcript = transcriber.transcribe(ASSETS / "jfk.flac", word_timestamps=True)
    subtitles = render(transcript, "vtt").encode()
    video = _make_video(_draw_speaker(), transcript.duration_s)
    width, height = FRAME
    with browser() as chromium:
        page = opened(
            chromium, "about:blank", viewport={"width": width, "height": height}
        )
        parts = [base64.b64encode(content).decode() for content in (video, subtitles)]
        page.evaluate(SHOW_VIDEO, [*parts, CUE_S])
        return _screenshot(page)


def _draw_speaker() -> Image.Image:
    """Return somebody behind a desk with two microphones, as a shape."""
    width, height = FRAME
    picture = Image.new("RGB", FRAME)
    draw = ImageDraw.Draw(picture)
    for row in range(height):
        light = 1 - row / height
        colour = (int(30 + 60 * light), int(50 + 70 * light), int(80 + 80 * light))
        draw.line([(0, row), (width, row)], fill=colour)
    dark = "#16202c"
    middle = width // 2
    draw.ellipse((middle - 62, 90, middle + 62, 250), fill=dark)
    draw.rectangle((middle - 28, 230, middle + 28, 290), fill=dark)
    draw.rounded_rectangle((middle - 170, 265, middle + 170, 620), 90, fill=dark)
    draw.rectangle((middle - 260, 400, middle + 260, height), fill="#5a4632")
    draw.rectangle((middle - 280, 385, middle + 280, 403), fill="#6d5640")
    for side in (-1, 1):
        draw.line((middle + 70 * side, 390, middle + 30 * side, 300), "#c8ccd0", 5)
        left = middle + 30 * side - 11
        draw.ellipse((left, 280, left + 22, 312), fill="#c8ccd0")
    return picture


def _make_video(picture: Image.Image, duration_s: float) -> bytes:
    """Return a WebM video that shows one picture."""
    file = io.BytesIO()
    with av.open(file, "w", format="webm") as container:
        stream = container.add_stream("libvpx", rate=FRAMES_PER_SECOND)
        stream.width = picture.width
        stream.height = picture.height
        stream.pix_fmt = "yuv420p"
        stream.bit_rate = 4_000_000
        for index in range(round(duration_s * FRAMES_PER_SECOND)):
            frame = av.VideoFrame.from_image(picture)
            frame.pts = index
            frame.time_base = Fraction(1, FRAMES_PER_SECOND)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def _screenshot(page: Any) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


PICTURES: Final[dict[str, Callable[[], Image.Image]]] = {
    "captions": draw_captions,
    "page": draw_page,
    "subtitles": draw_subtitles,
}
COLOURS: Final = {"subtitles": 128}
"""A video has more than a page, for which 32 are enough."""


def main() -> None:
    """Draw the named pictures, or all of them."""
    for name in sys.argv[1:] or PICTURES:
        picture = PICTURES[name]().quantize(COLOURS.get(name, 32))
        picture.save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
