/* Put the page together: what is shown is in the address, so that a link opens at an alarm. */
(function () {
  "use strict";
  const h = NN.h;
  const meta = JSON.parse(document.getElementById("report").textContent);
  const page = document.getElementById("page");
  const clock = NN.clock(meta.axis);
  const state = { name: undefined, picture: null, lists: null };
  let timer = 0;
  // The data come after this script, so that what happened is read before they are parsed.
  const parsed = new Promise((done) =>
    document.readyState === "loading" ? document.addEventListener("DOMContentLoaded", done) : done(),
  );

  /* ------------------------------------------------------------------ the address */

  const address = (parts) => {
    const known = Object.entries(parts).filter(([, value]) => value !== null && value !== undefined);
    return `#${known.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&")}`;
  };

  function place() {
    const found = {};
    for (const part of location.hash.slice(1).split("&")) {
      const [name, value] = part.split("=");
      try {
        if (value !== undefined) found[name] = decodeURIComponent(value);
      } catch {
        // not an address of this page
      }
    }
    return found;
  }

  const link = (name, kind, number) =>
    address({ stream: meta.fleet ? name : null, [kind || "all"]: kind ? number : meta.fleet ? null : 1 });

  /** Keep the range in the address without a new entry in the history. */
  function remember(x0, x1, all) {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const { stream, alarm, change } = place();
      const range = all ? {} : { from: +x0.toPrecision(14), to: +x1.toPrecision(14) };
      try {
        history.replaceState(
          null,
          "",
          address({ stream, alarm: all ? null : alarm, change: all ? null : change, ...range }),
        );
      } catch {
        // where a page may not change its address, as in a notebook
      }
    }, 250);
  }

  /* ------------------------------------------------------------------ the page */

  const main = h("main");
  const toggle = NN.themeButton(() => state.picture && state.picture.recolour());
  const header = h("header", { class: "nn-header" }, h("p", { class: "nn-title" }, meta.title), toggle);
  const keys = h(
    "p",
    { class: "nn-help" },
    "Drag to zoom, Ctrl + wheel or pinch to zoom, Shift + drag to move, double-click for all. Keys: ",
    [
      ["←", " "],
      ["→", " move, "],
      ["+", " "],
      ["−", " zoom, "],
      ["0", " all, "],
      ["n", " "],
      ["p", " next and previous alarm."],
    ].map(([key, text]) => [h("kbd", {}, key), text]),
  );
  const footer = h(
    "footer",
    { class: "nn-footer" },
    keys,
    h("p", {}, `Made by newnormal ${meta.version}. This page holds all its data and sends nothing anywhere.`),
  );

  function leave() {
    if (state.picture) state.picture.destroy();
    Object.assign(state, { picture: null, lists: null });
  }

  function showFleet() {
    leave();
    const overview = new NN.Overview(meta, (name) => link(name));
    main.replaceChildren(NN.fleetHeadline(meta), NN.incidents(meta, link, clock) || "", overview.element);
    keys.hidden = true; // they are for pictures
    document.title = meta.title;
  }

  function showStream(stream, position) {
    leave();
    keys.hidden = !stream.blocks;
    const box = h("div", { class: "nn-box" });
    const mine = (kind, number) => link(stream.name, kind, number);
    state.lists = new NN.Lists(stream, mine);
    const back =
      meta.fleet &&
      h(
        "p",
        { class: "nn-back" },
        h("a", { href: "#" }, `‹ All ${NN.count(meta.fleet.streams)} streams`),
        h("strong", {}, stream.name),
        incidentsOf(stream),
      );
    main.replaceChildren(
      back || "",
      NN.headline(stream, mine),
      h(
        "div",
        { class: "nn-columns" },
        box,
        h("aside", { class: "nn-aside", "aria-label": "What happened" }, state.lists.element),
      ),
    );
    document.title = meta.fleet ? `${stream.name} · ${meta.title}` : meta.title;
    if (!stream.blocks) {
      box.append(
        h(
          "p",
          { class: "nn-none" },
          "The samples of this stream are not in this file, which would be too large with them. Here is its ratio to the limit:",
        ),
        NN.sparkline(stream, 600, 60),
      );
      return;
    }
    const provider = new NN.Embedded(
      stream,
      parsed.then(() => document.getElementById(`data-${position}`).textContent),
    );
    state.picture = new NN.Picture(box, stream, provider, meta.axis, {
      onmark: (kind, number) => (location.hash = mine(kind, number).slice(1)),
      onview: remember,
    });
    provider.done.catch((error) =>
      box.replaceChildren(
        h(
          "p",
          { class: "nn-none", role: "alert" },
          `The samples in this file cannot be read: ${error.message}`,
        ),
      ),
    );
  }

  function incidentsOf(stream) {
    const found = meta.fleet.incidents.filter((incident) => stream.name in incident.streams);
    return found.map((incident) =>
      h("span", { class: "nn-chip", title: incident.sentence }, `incident ${incident.number}`),
    );
  }

  /** Show what the address names. */
  function go(first) {
    const { stream: name, alarm, change, from, to } = place();
    let position = meta.fleet ? meta.streams.findIndex((stream) => stream.name === name) : 0;
    if (state.name !== position) {
      state.name = position;
      if (position < 0) showFleet();
      else showStream(meta.streams[position], position);
      if (!first) scrollTo(0, 0);
    }
    if (!state.lists) return;
    const [kind, number] = alarm ? ["alarm", +alarm] : change ? ["change", +change] : [null, null];
    state.lists.mark(kind, number);
    if (!state.picture) return;
    const range = from !== undefined && to !== undefined && +to > +from;
    const there = state.picture.mark(kind, number, range);
    if (range) state.picture.show(+from, +to, true);
    else if (!there && !first) state.picture.show(...state.picture.full, true);
    if (there) reveal();
  }

  /** Scroll so that the picture is seen where the list lies below it. */
  function reveal() {
    const top = state.picture.frame.getBoundingClientRect().top;
    if (top < -40 || top > innerHeight * 0.6) state.picture.frame.scrollIntoView({ block: "start" });
  }

  page.replaceChildren(header, main, footer);
  go(true);
  addEventListener("hashchange", () => go(false));
  // A link to where the page is already does not change the address: go there again.
  document.addEventListener("click", (event) => {
    const anchor = event.target.closest && event.target.closest("a[href^='#']");
    if (anchor && anchor.getAttribute("href") === location.hash) go(false);
  });
  document.addEventListener("keydown", (event) => {
    if (state.picture && NN.press(state.picture, event)) event.preventDefault();
  });
  addEventListener("beforeprint", () => state.picture && state.picture.print(true));
  addEventListener("afterprint", () => state.picture && state.picture.print(false));
  NN.state = state;
})();
