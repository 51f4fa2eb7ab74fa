"""Open WebUI's own function for uploads: `open_webui_python.py ADDRESS WAV`.

The function is taken out of the installed package, since its module starts the whole of
Open WebUI; what it takes from there is given to it here.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import json
import logging
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiofiles
import aiohttp

ADDRESS, WAV = sys.argv[1:]


def load_function(settings: dict[str, str], session: aiohttp.ClientSession) -> Any:
    """Return `_transcribe_openai` with settings of Open WebUI by their names."""
    package = find_spec("open_webui")
    assert package is not None
    (folder,) = package.submodule_search_locations or ()
    path = Path(folder, "routers", "audio", "__init__.py")
    module = ast.parse(path.read_text(encoding="utf-8"))
    module.body = [
        node
        for node in module.body
        if isinstance(node, ast.AsyncFunctionDef) and node.name == "_transcribe_openai"
    ]

    class Config:
        @staticmethod
        async def get(name: str) -> str:
            return settings[name]

    async def get_session() -> aiohttp.ClientSession:
        return session

    names: dict[str, Any] = {
        "AIOHTTP_CLIENT_SESSION_SSL": True,
        "AIOHTTP_FILE_STREAM_CHUNK_SIZE": 1 << 16,
        "Config": Config,
        "ENABLE_FORWARD_USER_INFO_HEADERS": False,
        "JSONCodec": json,
        "aiofiles": aiofiles,
        "aiohttp": aiohttp,
        "base64": base64,
        "get_session": get_session,
        "log": logging.getLogger(),
        "os": os,
    }
    exec(compile(module, path, "exec"), names)
    return names["_transcribe_openai"]


async def main() -> None:
    async with aiohttp.ClientSession() as session:
        for request_format, model in (
            ("multipart", "whisper-1"),
            ("multipart", ""),
            ("json", "whisper-1"),
        ):
            settings = {
                "audio.stt.openai.api_key": "none",
                "audio.stt.openai.api_base_url": f"{ADDRESS}/v1",
                "audio.stt.openai.api_request_format": request_format,
                "audio.stt.model": model,
            }
            transcribe = load_function(settings, session)
            with tempfile.TemporaryDirectory() as folder:
                answer = await transcribe(
                    None, WAV, "speech.wav", [None], folder, "speech"
                )
            case = f"{request_format}, model {model!r}"
            print(json.dumps({"case": case, "text": answer["text"]}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
