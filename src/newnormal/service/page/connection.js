/* Requests to the service, its events, and whether it can be reached. */
(function () {
  "use strict";
  const BASE = "api/v1";
  const SILENCE = 45_000; // ms without a byte of events, of which the service sends one every 15 s at least
  const SLOWEST = 10_000; // ms between two tries to reach it
  const HIDDEN = 300_000; // ms after which a page that nobody sees gives its connection back

  /** An answer that is not what was asked for, as the service words it. */
  class Refused extends Error {
    constructor(message, hint, status) {
      super(message);
      this.hint = hint;
      this.status = status;
    }
  }
  NN.Refused = Refused;

  const listeners = new Map();

  /** Call a function when something happens; returns a function that ends it. */
  function on(kind, act) {
    if (!listeners.has(kind)) listeners.set(kind, new Set());
    listeners.get(kind).add(act);
    return () => listeners.get(kind).delete(act);
  }

  function tell(kind, what) {
    for (const act of [...(listeners.get(kind) || [])]) act(what);
  }

  const state = { lostSince: null, session: null, csrf: null, last: null };

  function lost() {
    if (state.lostSince !== null) return;
    state.lostSince = Date.now();
    tell("lost", state.lostSince);
  }

  function reached() {
    if (state.lostSince === null) return;
    state.lostSince = null;
    tell("reached");
  }

  async function request(method, path, body, options = {}) {
    const headers = { Accept: "application/json", "X-Newnormal": "page" };
    if (state.csrf && method !== "GET") headers["X-CSRF-Token"] = state.csrf;
    let sent = body;
    if (body !== undefined && !options.raw) {
      headers["Content-Type"] = "application/json";
      sent = JSON.stringify(body);
    } else if (options.raw) headers["Content-Type"] = options.raw;
    let answer;
    try {
      answer = await fetch(BASE + path, {
        method,
        headers,
        body: sent,
        credentials: "same-origin",
        cache: "no-store",
        signal: options.signal,
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      lost();
      live.hurry();
      throw new Refused("The service cannot be reached.", "The page tries again by itself.", 0);
    }
    reached();
    const text = await answer.text();
    let found = null;
    try {
      found = text ? JSON.parse(text) : null;
    } catch {
      found = null;
    }
    if (answer.ok) return found;
    if (answer.status === 401 && !options.quiet) tell("locked");
    const words = found && (found.error || found.detail);
    throw new Refused(
      typeof words === "string" ? words : `The service answered ${answer.status}.`,
      (found && found.hint) || "",
      answer.status,
    );
  }

  /** Ask for something, with parameters that are neither null nor "". */
  function get(path, parameters = {}, options) {
    const given = Object.entries(parameters).filter(([, v]) => v !== null && v !== undefined && v !== "");
    const query = given.length ? `?${new URLSearchParams(given)}` : "";
    return request("GET", path + query, undefined, options);
  }

  NN.api = {
    get,
    post: (path, body = {}, options) => request("POST", path, body, options),
    remove: (path) => request("DELETE", path),
    on,
    state,
    tell,
  };

  /* ------------------------------------------------------------------ events */

  /** The events of the service, read as they come; it is joined again where it was left. */
  const live = {
    wanted: false,
    controller: null,
    waiting: 0,
    wait: 500,

    start() {
      this.wanted = true;
      if (!this.controller && !this.waiting) this.open();
    },

    stop() {
      this.wanted = false;
      clearTimeout(this.waiting);
      this.waiting = 0;
      if (this.controller) this.controller.abort();
      this.controller = null;
    },

    /** A request has failed: look at once whether events still come. */
    hurry() {
      if (this.wanted && !this.controller && !this.waiting) this.later();
    },

    later() {
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => {
        this.waiting = 0;
        if (this.wanted) this.open();
      }, this.wait);
      this.wait = Math.min(SLOWEST, this.wait * 1.6);
    },

    async open() {
      const controller = (this.controller = new AbortController());
      let timer = 0;
      const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(() => controller.abort(), SILENCE);
      };
      let closed = false;
      try {
        alive();
        const after = state.last ? `?after=${encodeURIComponent(state.last)}` : "";
        const answer = await fetch(`${BASE}/events${after}`, {
          headers: { Accept: "text/event-stream", "X-Newnormal": "page" },
          credentials: "same-origin",
          cache: "no-store",
          signal: controller.signal,
        });
        if (answer.status === 401) {
          this.controller = null;
          clearTimeout(timer);
          tell("locked");
          return;
        }
        if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
        const again = state.lostSince !== null;
        this.wait = 500;
        reached();
        if (again) tell("resync");
        await read(answer.body, alive);
        closed = true;
      } catch {
        closed = true;
      }
      clearTimeout(timer);
      if (this.controller !== controller) return; // stopped
      this.controller = null;
      if (closed && this.wanted) {
        lost();
        this.later();
      }
    },
  };
  NN.live = live;

  /** Read server-sent events. */
  async function read(body, alive) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    let event = { kind: "message", data: [], id: null };
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      const lines = (rest + value).split(/\r\n|\r|\n/);
      rest = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (event.data.length) take(event);
          event = { kind: "message", data: [], id: null };
        } else if (!line.startsWith(":")) {
          const at = line.indexOf(":");
          const name = at < 0 ? line : line.slice(0, at);
          const text = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
          if (name === "event") event.kind = text;
          else if (name === "data") event.data.push(text);
          else if (name === "id") event.id = text;
        }
      }
    }
  }

  function take({ kind, data, id }) {
    if (id) state.last = id;
    let body;
    try {
      body = JSON.parse(data.join("\n"));
    } catch {
      return;
    }
    if (kind === "tick") return tell("tick", body.streams || body);
    if (kind === "resync") return tell("resync");
    return tell("event", { kind, ...body });
  }

  // A page that is not seen for long gives its connection back; it reads everything anew when seen.
  let hidden = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hidden);
    if (document.hidden)
      hidden = setTimeout(() => {
        if (!live.wanted) return;
        live.stop();
        live.rests = true;
      }, HIDDEN);
    else if (live.rests) {
      live.rests = false;
      live.start();
      tell("resync");
    } else tell("seen");
  });
})();
