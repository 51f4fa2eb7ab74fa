"""`/v1/realtime` of OpenAI's API: sound in and text out over a WebSocket."""
