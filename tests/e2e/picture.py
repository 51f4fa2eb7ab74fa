"""Draws docs/img/captions.png, the page of captions: python -m tests.e2e.picture."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from tests.e2e.browser import browser, opened
from tests.e2e.conftest import ROOT
from tests.e2e.talk import give, saying, stage

PICTURE = ROOT / "docs" / "img" / "captions.png"
SCREENS = ((1280, 720, "dark"), (360, 720, "light"))
"""A wall and a phone, side by side."""

GAP = 16


def main() -> None:
    """Open the page on each screen while somebody speaks."""
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
            pictures.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    whole = Image.new(
        "RGB", (sum(p.width for p in pictures) + GAP, pictures[0].height), "#808080"
    )
    left = 0
    for picture in pictures:
        whole.paste(picture, (left, 0))
        left += picture.width + GAP
    whole.quantize(32).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
