// Messages of the server as long as the page is open; a lost connection is opened again.

const MIN_RETRY_MS = 250;
const MAX_RETRY_MS = 8000;
const NOT_ALLOWED = 1008;
const STILL_MS = 30000; // the server says something each 10 s, or it is gone

const token = new URLSearchParams(location.search).get("token");

// Returns the address of a socket, with the token that the page was opened with.
export function address(path) {
  const url = new URL(path, location.href.replace(/^http/, "ws"));
  if (token) url.searchParams.set("token", token);
  return url;
}

// Calls `handle` with each message, `setConnected` with whether there is a connection, and `deny` if
// the token is wrong. Returns a function that sends a message, which is lost without a connection.
export function connect(path, handle, setConnected, deny) {
  let socket = null;
  let retryMs = MIN_RETRY_MS;
  let timer = null;

  function open() {
    clearTimeout(timer);
    socket = new WebSocket(address(path));
    socket.onmessage = ({ data }) => {
      restartTimer();
      const message = JSON.parse(data);
      retryMs = message.event === "end" ? 4 * MIN_RETRY_MS : MIN_RETRY_MS;
      handle(message);
    };
    socket.onopen = () => setConnected(true);
    socket.onclose = ({ code }) => {
      lose();
      if (code === NOT_ALLOWED) deny();
    };
    restartTimer();
  }

  function restartTimer() {
    clearTimeout(timer);
    timer = setTimeout(lose, STILL_MS);
  }

  function lose() {
    clearTimeout(timer);
    socket.onopen = socket.onmessage = socket.onclose = null; // it may still linger on its way out
    socket.close();
    socket = null;
    setConnected(false);
    timer = setTimeout(open, retryMs * (0.8 + 0.4 * Math.random())); // not all pages at once
    retryMs = Math.min(MAX_RETRY_MS, 2 * retryMs);
  }

  // A reader who looks again, or has a network again, does not wait.
  const reopen = () => { if (!socket && !document.hidden) open(); };
  window.addEventListener("online", reopen);
  document.addEventListener("visibilitychange", reopen);
  open();
  return (message) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  };
}
