"""faster-whisper behind the thinnest HTTP server: an upload at OpenAI's route, its text as JSON.

    python serve_faster_whisper.py FOLDER [--threads 1] [--beam 1]

FOLDER is a model in CTranslate2's format. It prints the port at which it listens on this machine.
It stands for speaches, which no package index has: that one adds checks, queues and more, and
calls the same library. Runs in an environment with faster-whisper.
"""

from __future__ import annotations

import argparse
import io
import json
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, HTTPServer

from faster_whisper import WhisperModel


def read_form(media_type: str, body: bytes) -> dict[str, bytes]:
    """Return the fields of a multipart form."""
    head = f"Content-Type: {media_type}\r\n\r\n".encode()
    form = BytesParser().parsebytes(head + body)
    fields = {}
    for part in form.get_payload():
        name = part.get_param("name", header="content-disposition")
        fields[name] = part.get_payload(decode=True)
    return fields


class Handler(BaseHTTPRequestHandler):
    """Transcribes an upload, as faster-whisper does by default but for the beam."""

    model: WhisperModel
    beam: int

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        form = read_form(self.headers["Content-Type"], body)
        segments, _ = self.model.transcribe(
            io.BytesIO(form["file"]),
            language=form["language"].decode(),
            beam_size=self.beam,
        )
        text = "".join(segment.text for segment in segments)
        answer = json.dumps({"text": text}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--beam", type=int, default=1)
    arguments = parser.parse_args()
    Handler.model = WhisperModel(
        arguments.folder,
        device="cpu",
        compute_type="int8",
        cpu_threads=arguments.threads,
    )
    Handler.beam = arguments.beam
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
