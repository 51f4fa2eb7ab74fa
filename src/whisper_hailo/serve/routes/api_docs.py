"""The page that describes the API, without a script or anything from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from whisper_hailo.serve.service import TranscriptionService

_HEAD: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>whisper-hailo: API</title>
<style>
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, h2 { font-family: ui-monospace, monospace; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
td { padding: 0 1rem 0 0; vertical-align: top; }
</style>
<h1>whisper-hailo</h1>
<p>The same for programs: <a href="/openapi.json">openapi.json</a>.</p>
"""


def router(service: TranscriptionService) -> APIRouter:
    """`/docs`: what the server answers, for people to read."""
    del service
    routes = APIRouter()

    @routes.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        return HTMLResponse(page(request.app.openapi()))

    return routes


def page(description: dict[str, Any]) -> str:
    """The page of an OpenAPI description."""
    schemas = description.get("components", {}).get("schemas", {})
    parts = [_HEAD]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2>{method.upper()} {escape(path)}</h2>\n")
            parts.append(f"<p>{escape(operation.get('summary', ''))}</p>\n")
            rows = _rows(operation, schemas)
            if rows:
                parts.append(f"<table>{''.join(rows)}</table>\n")
    return "".join(parts)


def _rows(operation: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """A row for each parameter and each field of the body."""
    fields = {one["name"]: one["schema"] for one in operation.get("parameters", ())}
    needed = {one["name"] for one in operation.get("parameters", ()) if one.get("required")}
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = schemas.get(content["schema"].get("$ref", "").rpartition("/")[2], {})
        fields |= schema.get("properties", {})
        needed |= set(schema.get("required", ()))
    return [
        f"<tr><td><code>{escape(name)}</code><td>{escape(_kind(schema))}"
        f"<td>{'needed' if name in needed else ''}</tr>\n"
        for name, schema in fields.items()
    ]


def _kind(schema: dict[str, Any]) -> str:
    """What a value may be, in words."""
    if "anyOf" in schema:
        kinds = [_kind(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"any number of: {_kind(schema['items'])}"
    if schema.get("contentMediaType") or schema.get("format") == "binary":
        return "a file"
    default = f", {schema['default']} by default" if schema.get("default") is not None else ""
    return f"{schema.get('const', schema.get('type', ''))}{default}"
