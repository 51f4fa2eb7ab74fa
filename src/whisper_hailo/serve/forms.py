"""Forms of uploads: multipart and JSON, bounded, with lists under one spelling of their names."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Request, UploadFile
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import FormData, Headers
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser

MAX_FILES: Final = 4
MAX_FIELDS: Final = 64

MAX_FIELD_BYTES: Final = 3 << 20
"""Samples of known speakers are fields: 10 s of CD sound as base64 have 2.3 MiB."""

MAX_ALL_FIELD_BYTES: Final = 12 << 20
"""Four such samples, and everything else."""

MAX_JSON_BYTES: Final = 36 << 20
"""Base64 of the 25 MiB that OpenAI takes. JSON is kept in memory, a file of a form on the disk."""

_MAX_JSON_COMMAS: Final = 8192
"""More than all fields have, with a long prompt in them. A million values take Python seconds, in
which no other client is answered; base64 has no comma."""

_LISTS: Final = frozenset(
    {
        "include",
        "keywords",
        "known_speaker_names",
        "known_speaker_references",
        "languages",
        "timestamp_granularities",
    }
)
_LIST_NAME: Final = re.compile(r"(\w+)(?:\[\d*\])?")

FormItem: TypeAlias = tuple[str, str | UploadFile]


class UploadRequest(Request):
    """A request whose form is bounded; only larger files are written to disk."""

    async def _get_form(self, **_limits: object) -> FormData:
        """Return the form, of which Starlette would keep 1000 MiB in memory."""
        if self._form is None:
            media_type, _, _ = self.headers.get("content-type", "").partition(";")
            match media_type.strip().lower():
                case "multipart/form-data":
                    form = await self._parse_multipart()
                case "application/json":
                    form = await self._parse_json()
                case _:
                    form = await super()._get_form(
                        max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
                    )
            self._form = _name_lists(form)
        return self._form

    async def _parse_multipart(self) -> FormData:
        try:
            async with aclosing(self.stream()) as stream:
                parser = _BoundedParser(self.headers, stream)
                try:
                    return await parser.parse()
                finally:
                    parser.drop_fields()
        except MultiPartException as error:
            raise HTTPException(400, error.message) from None

    async def _parse_json(self) -> FormData:
        """Return what OpenRouter's clients send, such as Open WebUI: the file is base64 in JSON."""
        body = bytearray()
        async with aclosing(self.stream()) as stream:
            async for piece in stream:
                body += piece
                if len(body) > MAX_JSON_BYTES:
                    raise HTTPException(
                        413,
                        f"a JSON request may have {MAX_JSON_BYTES >> 20} MiB at most; send a form "
                        "(multipart/form-data)",
                    )
        # Off the event loop, which other clients wait for.
        return await asyncio.to_thread(_parse_json_upload, bytes(body))


class _BoundedParser(MultiPartParser):
    """Parses a form; its fields, which are kept in memory, are bounded each and together."""

    def __init__(self, headers: Headers, stream: AsyncGenerator[bytes, None]) -> None:
        super().__init__(
            headers,
            stream,
            max_files=MAX_FILES,
            max_fields=MAX_FIELDS,
            max_part_size=MAX_FIELD_BYTES,
        )
        self._n_field_bytes = 0

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._current_part.file is None:
            self._n_field_bytes += end - start
            if self._n_field_bytes > MAX_ALL_FIELD_BYTES:
                limit_mib = MAX_ALL_FIELD_BYTES >> 20
                raise MultiPartException(
                    f"all form fields together may have {limit_mib} MiB at most; send shorter "
                    "samples of known speakers"
                )
        super().on_part_data(data, start, end)

    def drop_fields(self) -> None:
        """Forget all fields, which the tracebacks of an interrupted upload hold."""
        self.items = []
        self._current_part.data.clear()
        self._file_parts_to_write.clear()


_Text: TypeAlias = Annotated[str, Field(max_length=MAX_FIELD_BYTES)]
_Value: TypeAlias = bool | int | float | _Text | None


class _InputAudio(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")

    data: bytes
    format: Annotated[str, Field(max_length=16, pattern=r"^\w*$")] = ""


class _JsonUpload(BaseModel):
    """A request of OpenRouter's API; other fields are those of the form."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[
        str, _Value | Annotated[list[_Value], Field(max_length=MAX_FIELDS)]
    ] = Field(init=False)

    input_audio: _InputAudio


def _parse_json_upload(body: bytes) -> FormData:
    """Return a JSON upload as the form that it stands for.

    Raises:
        HTTPException: it is none, or has too much.
    """
    if body.count(b",") > _MAX_JSON_COMMAS:
        raise HTTPException(400, f"a JSON request may have {MAX_FIELDS} fields at most")
    try:
        upload = _JsonUpload.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "the request"
        raise HTTPException(
            400,
            f"{name}: {first['msg']}; send a form (multipart/form-data), or input_audio with "
            "data in base64",
        ) from None
    items = list(_form_items(upload.__pydantic_extra__))
    if len(items) > MAX_FIELDS:
        raise HTTPException(400, f"a request has {MAX_FIELDS} fields at most")
    audio = upload.input_audio
    file = UploadFile(io.BytesIO(audio.data), filename=f"audio.{audio.format or 'bin'}")
    return FormData([*items, ("file", file)])


def _form_items(fields: Mapping[str, Any]) -> Iterator[FormItem]:
    """Yield fields of a JSON object as a form has them; `null` is a field that is not there."""
    for name, value in fields.items():
        values = value if isinstance(value, list) else [value]
        for item in values:
            if isinstance(item, bool):
                yield name, str(item).lower()
            elif item is not None:
                yield name, str(item)


def _name_lists(form: FormData) -> FormData:
    """Return a form whose lists are called `name[]`; clients also write `name` and `name[0]`."""

    def rename(name: str) -> str:
        match = _LIST_NAME.fullmatch(name)
        return f"{match[1]}[]" if match and match[1] in _LISTS else name

    return FormData([(rename(name), value) for name, value in form.multi_items()])
