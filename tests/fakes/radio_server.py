"""A server that plays recordings, endless streams, and some that play no fair."""

from __future__ import annotations

import io
import time
from http.server import BaseHTTPRequestHandler

import numpy as np
import soundfile

from tests.fakes.sounds import tone

RATE_HZ = 22_050
TS_PACKET = 188


def encoded(kind: str) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, tone(RATE_HZ, 2.0), RATE_HZ, format=kind)
    return file.getvalue()


def pictures() -> tuple[bytes, bytes]:
    """A stream of pictures with a second of sound, and how it goes on without any."""
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="mpegts") as container:
        video = container.add_stream("mpeg2video", rate=25)
        video.width = video.height = 64
        video.pix_fmt = "yuv420p"
        audio = container.add_stream("mp2", rate=RATE_HZ)
        audio.layout = "mono"
        for index in range(500):
            picture = av.VideoFrame.from_ndarray(
                np.full((96, 64), index % 99, np.uint8), "yuv420p"
            )
            picture.pts = index
            container.mux(video.encode(picture))
            if index < 20:
                sound = av.AudioFrame.from_ndarray(
                    np.zeros((1, 1152), np.int16), "s16", "mono"
                )
                sound.sample_rate = RATE_HZ
                sound.pts = index * 1152
                container.mux(audio.encode(sound))
    whole = file.getvalue()
    third = len(whole) // TS_PACKET // 3 * TS_PACKET
    return whole, whole[third : 2 * third]  # its end has the last of the sound


class Radio(BaseHTTPRequestHandler):
    """`/recording` has a length; `/live` plays for ever, in small pieces; others play no fair."""

    def do_GET(self) -> None:
        if self.path == "/recording":
            body = encoded("FLAC")
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        elif self.path == "/live":
            self.send_response(200)
            self.send_header("Content-Type", "audio/mpeg")
            self.end_headers()
            self._play(encoded("MP3"))
        elif self.path == "/trickle":
            self.send_response(200)
            self.send_header("Content-Type", "audio/mpeg")
            self.end_headers()
            body = encoded("MP3")
            self.wfile.write(4 * body)
            self._play(body, n_bytes=50)
        elif self.path == "/pictures":
            self.send_response(200)
            self.send_header("Content-Type", "video/mp2t")
            self.end_headers()
            whole, rest = pictures()
            self.wfile.write(whole)
            self._play(rest, n_bytes=TS_PACKET)
        elif self.path == "/dying":
            body = encoded("MP3")
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
        elif self.path == "/half":
            body = encoded("FLAC")
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
        elif self.path == "/never":
            self.rfile.read(1)  # until the listener leaves
        else:
            self.send_error(404)

    def _play(self, body: bytes, n_bytes: int = 500) -> None:
        try:
            while True:
                for at in range(0, len(body), n_bytes):
                    self.wfile.write(body[at : at + n_bytes])
                    time.sleep(0.01)
        except OSError:
            return  # the listener left

    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""
