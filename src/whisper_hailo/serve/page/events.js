// Server-sent events of an answer, one object each, as they come.
export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").find((line) => line.startsWith("data: "));
      if (data) yield JSON.parse(data.slice("data: ".length));
    }
  }
}

// The message of a refusal.
export async function readError(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answers ${response.status}`; // a proxy's refusal has no message of ours
  }
}
