/* What is around every view: header, address, messages, dialogs, keys. */
(function () {
  "use strict";
  const h = NN.h;
  const SHOWN = 9_000; // ms that a message stays
  const MESSAGES = 3; // at a time

  /* ------------------------------------------------------------------ the address */

  const views = [];

  /** Show `make(place)` where the address matches; `place` has `parts` and `query`. */
  NN.view = (pattern, make) => views.push([pattern, make]);

  /** The address of the page as its parts and what is asked of it. */
  NN.place = function () {
    const [path, query] = location.hash.replace(/^#/, "").split("?");
    const parts = path.split("/").filter(Boolean).map(decode);
    return { path: `/${parts.join("/")}`, parts, query: Object.fromEntries(new URLSearchParams(query || "")) };
  };

  const decode = (text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  };

  /** An address inside the page. */
  NN.link = function (parts, query = {}) {
    const given = Object.entries(query).filter(([, v]) => v !== null && v !== undefined && v !== "");
    const asked = given.length ? `?${new URLSearchParams(given)}` : "";
    return `#/${parts.map(encodeURIComponent).join("/")}${asked}`;
  };

  /** Keep what a view shows in the address, without a new entry in the history. */
  NN.remember = function (query) {
    const { parts } = NN.place();
    const hash = NN.link(parts, query);
    if (hash !== location.hash) {
      history.replaceState(history.state, "", hash);
      current.hash = hash;
    }
  };

  const current = { view: null, hash: null };
  NN.current = current;

  // Where a view was scrolled to, by its address: going back shows what was seen before.
  const scrolled = {
    read() {
      try {
        return JSON.parse(sessionStorage.getItem("newnormal-scrolled") || "{}");
      } catch {
        return {};
      }
    },
    keep(hash, y) {
      try {
        const all = this.read();
        all[hash] = Math.round(y);
        sessionStorage.setItem("newnormal-scrolled", JSON.stringify(all));
      } catch {
        // the view begins at its top again
      }
    },
  };
  history.scrollRestoration = "manual";
  let leaving = 0; // how far the view was scrolled, before the address changed
  addEventListener("scroll", () => (leaving = scrollY), { passive: true });
  addEventListener("pagehide", () => current.hash !== null && scrolled.keep(current.hash, scrollY));

  NN.go = function (first) {
    const hash = location.hash || "#/";
    if (hash === "#main") return;
    const place = NN.place();
    if (current.view && current.view.takes && current.view.takes(place)) {
      current.hash = hash;
      return;
    }
    if (current.view) {
      scrolled.keep(current.hash, leaving);
      if (current.view.leave) current.view.leave();
    }
    const found = views.find(([pattern]) => pattern.test(place.path)) || views.at(-1);
    const back = first || NN.goesBack;
    NN.goesBack = false;
    current.hash = hash;
    current.view = found[1](place, back ? scrolled.read()[hash] || 0 : 0);
    main.replaceChildren(current.view.element);
    NN.title(current.view.title);
    mark(place);
    // What is below moves when a view is read: it comes afterwards.
    const { view } = current;
    footer.hidden = Boolean(view.ready);
    if (view.ready) view.ready.finally(() => current.view === view && (footer.hidden = false));
    const y = back ? scrolled.read()[hash] || 0 : 0;
    scrollTo(0, y);
    leaving = y;
    if (!first) focusHead();
  };

  /** Make the view of the address again. */
  NN.reload = function () {
    if (current.view && current.view.leave) current.view.leave();
    current.view = null;
    NN.go(true);
  };

  /** Put the focus at the head of a view, so that it is read from there. */
  function focusHead() {
    const head = main.querySelector("h1") || main;
    if (!head.hasAttribute("tabindex")) head.setAttribute("tabindex", "-1");
    head.focus({ preventScroll: true });
  }

  addEventListener("popstate", () => (NN.goesBack = true));

  /** The title of the window, with how many streams need attention. */
  NN.title = function (text) {
    if (text !== undefined) current.title = text;
    const need = NN.need || 0;
    document.title = `${need ? `(${need}) ` : ""}${current.title ? `${current.title} · ` : ""}newnormal`;
  };

  /* ------------------------------------------------------------------ header */

  const tab = (text, href, name) => h("a", { href, "data-tab": name }, text);
  const needCount = h("span", { class: "nn-tab-count", hidden: true });
  const healthSign = h("span", { class: "nn-tab-sign", hidden: true }, "!");
  const tabs = h(
    "nav",
    { class: "nn-tabs", "aria-label": "Views" },
    tab(["Streams", needCount], "#/", "streams"),
    tab("Inbox", "#/inbox", "inbox"),
    tab(["Health", healthSign], "#/health", "health"),
  );
  const theme = NN.themeButton(() => current.view && current.view.recolour && current.view.recolour());
  const help = h(
    "button",
    { type: "button", class: "nn-button nn-keys-button", "aria-label": "Keys (?)", title: "Keys (?)", onclick: () => keys() },
    "?",
  );
  const logout = () => h("button", { type: "button", class: "nn-button nn-logout", hidden: true, onclick: () => NN.logout() }, "Log out");
  const leave = [logout(), logout()]; // in the header, and in the footer of a phone
  const header = h(
    "header",
    { class: "nn-bar" },
    h("a", { class: "nn-brand", href: "#/" }, mark_(), h("span", {}, "newnormal")),
    tabs,
    h("div", { class: "nn-tools" }, help, theme, leave[0]),
  );

  function mark_() {
    const line = NN.svg("path", { d: "M2 12h6l3-4 4 8 4-15 3 11h8", class: "nn-brand-line" });
    return NN.svg("svg", { viewBox: "0 0 32 20", width: 29, height: 18, "aria-hidden": "true" }, line);
  }

  function mark(place) {
    const name = { inbox: "inbox", item: "inbox", health: "health" }[place.parts[0]] || "streams";
    for (const each of tabs.children) {
      if (each.dataset.tab === name && place.parts[0] !== "login") each.setAttribute("aria-current", "page");
      else each.removeAttribute("aria-current");
    }
    tabs.hidden = place.parts[0] === "login";
  }

  /** How many streams need attention. */
  NN.showCount = function (count) {
    needCount.hidden = !count;
    needCount.textContent = count ? String(count) : "";
    needCount.setAttribute("aria-label", count ? `${NN.plural(count, "stream")} ${count === 1 ? "needs" : "need"} attention` : "");
  };

  NN.showHealth = function (status) {
    healthSign.hidden = status === "ok" || !status;
    healthSign.setAttribute("aria-label", status && status !== "ok" ? "needs attention" : "");
  };

  NN.showSession = function (session) {
    for (const each of leave) {
      each.hidden = !(session && session.login);
      each.title = session && session.who ? `Logged in as ${session.who}` : "";
    }
  };

  /* ------------------------------------------------------------------ the connection */

  const since = h("span", {});
  const banner = h(
    "div",
    { class: "nn-banner", role: "alert", hidden: true },
    h("strong", {}, "No connection to the service"),
    " ",
    since,
    " ",
    h("button", { type: "button", class: "nn-button", onclick: () => NN.live.start() || NN.api.tell("poll") }, "Try now"),
  );
  let counting = 0;
  NN.api.on("lost", (at) => {
    const say = () => {
      const seconds = (Date.now() - at) / 1000;
      since.textContent = `since ${NN.localClock.text(Math.floor(at / 1000)).slice(11)} (${NN.lasting(seconds)}). What you see is from then; the page tries again by itself.`;
    };
    say();
    clearInterval(counting);
    counting = setInterval(say, 1000);
    // A short break, as at a restart, needs no banner.
    setTimeout(() => (banner.hidden = NN.api.state.lostSince === null), 1200);
  });
  NN.api.on("reached", () => {
    clearInterval(counting);
    if (!banner.hidden) NN.say("Connected again.");
    banner.hidden = true;
  });

  /* ------------------------------------------------------------------ messages */

  const messages = h("div", { class: "nn-messages", role: "status", "aria-live": "polite", "aria-label": "Messages" });

  /** Show a message for a while. `link`: [text, address] or [text, function]. */
  NN.say = function (text, kind = "", link) {
    const gone = () => made.remove();
    const act =
      link &&
      (typeof link[1] === "string"
        ? h("a", { href: link[1], onclick: gone }, link[0])
        : h("button", { type: "button", class: "nn-link", onclick: () => gone() || link[1]() }, link[0]));
    const made = h(
      "div",
      { class: `nn-message ${kind ? `nn-message-${kind}` : ""}` },
      h("span", {}, text),
      act,
      h("button", { type: "button", class: "nn-close", "aria-label": "Dismiss", onclick: gone }, "×"),
    );
    messages.append(made);
    while (messages.children.length > MESSAGES) messages.firstChild.remove();
    setTimeout(gone, kind === "bad" ? 2 * SHOWN : SHOWN);
  };

  /** Say why something was refused. */
  NN.complain = function (error) {
    if (error.name === "AbortError" || error.status === 401) return;
    NN.say([error.message, error.hint ? ` ${error.hint}` : ""], "bad");
  };

  /* ------------------------------------------------------------------ dialogs */

  /** Ask before something is done; gives what was written, or null. */
  NN.ask = function ({ title, text, yes, kind = "primary", comment }) {
    return new Promise((done) => {
      const given = h("textarea", {
        rows: 2,
        maxlength: 2000,
        placeholder: "Why (others see it)",
        "aria-label": "Comment",
        autofocus: true, // no key that was meant for something else decides
      });
      const name = `dialog-${Date.now()}`;
      const dialog = h(
        "dialog",
        { class: "nn-dialog", "aria-labelledby": name },
        h(
          "form",
          { method: "dialog", onsubmit: () => dialog.close("yes") },
          h("h2", { id: name }, title),
          [text].flat().map((each) => each && h("p", {}, each)),
          comment && h("label", {}, h("span", {}, "Comment, optional"), given),
          h(
            "div",
            { class: "nn-dialog-buttons" },
            h("button", { type: "button", class: "nn-button", autofocus: kind === "danger", onclick: () => dialog.close("no") }, "Cancel"),
            h("button", { type: "submit", class: `nn-button nn-${kind}`, title: comment ? "Ctrl + Enter" : null, autofocus: true }, yes),
          ),
        ),
      );
      given.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) dialog.close("yes");
      });
      dialog.addEventListener("close", () => {
        dialog.remove();
        done(dialog.returnValue === "yes" ? { comment: given.value.trim() } : null);
      });
      document.body.append(dialog);
      dialog.showModal();
    });
  };

  const KEYS = [
    ["Everywhere", [["g s", "streams"], ["g i", "inbox"], ["g h", "health"], ["/", "search"], ["?", "these keys"], ["Esc", "close, or leave a field"]]],
    ["Streams", [["j k", "next, previous stream"], ["Enter", "open it"]]],
    ["Inbox", [["j k", "next, previous item"], ["a", "accept"], ["r", "reject"], ["c", "comment"], ["Enter", "open it"], ["s", "open its stream"]]],
    ["Picture", [["← →", "move"], ["+ −", "zoom"], ["0", "all"], ["n p", "next, previous alarm"], ["l", "follow the newest samples"]]],
  ];

  function keys() {
    const dialog = h(
      "dialog",
      { class: "nn-dialog nn-dialog-wide", "aria-label": "Keys" },
      h("h2", {}, "Keys"),
      h(
        "div",
        { class: "nn-keys" },
        KEYS.map(([name, rows]) =>
          h(
            "section",
            {},
            h("h3", {}, name),
            h(
              "dl",
              {},
              rows.map(([pressed, does]) => [
                h("dt", {}, pressed.split(" ").map((key) => [h("kbd", {}, key), " "])),
                h("dd", {}, does),
              ]),
            ),
          ),
        ),
      ),
      h("p", { class: "nn-note" }, "In the picture: drag to zoom, Ctrl + wheel or pinch to zoom, Shift + drag to move, double-click for all."),
      h(
        "div",
        { class: "nn-dialog-buttons" },
        h("button", { type: "button", class: "nn-button nn-primary", autofocus: true, onclick: () => dialog.close() }, "Close"),
      ),
    );
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  let before = ""; // a key that waits for the next one
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape" && typing) return void event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const two = before + event.key;
    before = event.key === "g" ? "g" : "";
    const where = { gs: "#/", gi: "#/inbox", gh: "#/health" }[two];
    let done = true;
    if (where) location.hash = where;
    else if (event.key === "?") keys();
    else if (event.key === "/" && main.querySelector("input[type=search]")) main.querySelector("input[type=search]").focus();
    else done = Boolean(current.view && current.view.keys && current.view.keys(event));
    if (done) event.preventDefault();
  });

  /* ------------------------------------------------------------------ the page */

  const main = h("main", { id: "main", tabindex: "-1" });
  const spoken = h("div", { class: "nn-spoken", role: "status", "aria-live": "assertive" });
  /** Read out to those who do not see the page. */
  NN.speak = (text) => (spoken.textContent = text);

  const demo = h("p", { class: "nn-demo", hidden: true });
  /** Say that the machines are simulated, and how fast their time goes. */
  NN.showDemo = function ({ machines, minutes_a_second }) {
    demo.hidden = false;
    demo.textContent =
      `Demo: ${machines} simulated machines. An hour of theirs takes ${Math.round(60 / minutes_a_second)} s, ` +
      "until they have caught up with your clock.";
  };

  const footer = h(
    "footer",
    { class: "nn-footer" },
    h("p", {}, `Times are those of ${NN.zone}. This page talks to its own service alone.`),
    leave[1],
  );

  NN.build = function () {
    document.getElementById("page").replaceChildren(header, banner, demo, main, footer, messages, spoken);
  };
})();
