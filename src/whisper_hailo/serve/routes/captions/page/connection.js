// Messages of the server for as long as the page is open, whatever becomes of the connection.

const SHORTEST_MS = 250;
const LONGEST_MS = 8000;
const NOT_ALLOWED = 1008;
const STILL_MS = 30000; // the server says something each 10 s, or it is gone

const token = new URLSearchParams(location.search).get("token");

// Of a socket, with the token that the page was opened with.
export function address(path) {
  const url = new URL(path, location.href.replace(/^http/, "ws"));
  if (token) url.searchParams.set("token", token);
  return url;
}

// Calls `take` with each message, `tell` with whether there is a connection, and `deny` where the
// token is wrong. What is sent with the function that is returned is lost where there is none.
export function connect(path, take, tell, deny) {
  let socket = null;
  let waitMs = SHORTEST_MS;
  let timer = null;

  function open() {
    clearTimeout(timer);
    socket = new WebSocket(address(path));
    socket.onmessage = ({ data }) => {
      expectMore();
      const message = JSON.parse(data);
      waitMs = message.event === "end" ? 4 * SHORTEST_MS : SHORTEST_MS;
      take(message);
    };
    socket.onopen = () => tell(true);
    socket.onclose = ({ code }) => {
      lose();
      if (code === NOT_ALLOWED) deny();
    };
    expectMore();
  }

  function expectMore() {
    clearTimeout(timer);
    timer = setTimeout(lose, STILL_MS);
  }

  function lose() {
    clearTimeout(timer);
    socket.onopen = socket.onmessage = socket.onclose = null; // it may still linger on its way out
    socket.close();
    socket = null;
    tell(false);
    timer = setTimeout(open, waitMs * (0.8 + 0.4 * Math.random())); // not all pages at once
    waitMs = Math.min(LONGEST_MS, 2 * waitMs);
  }

  // Whoever looks again, or has a network again, does not wait.
  const now = () => { if (!socket && !document.hidden) open(); };
  window.addEventListener("online", now);
  document.addEventListener("visibilitychange", now);
  open();
  return (message) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  };
}
