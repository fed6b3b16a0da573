/* Health of the service, in plain sentences. */
(function () {
  "use strict";
  const h = NN.h;
  const EVERY = 5_000; // ms

  const STATUS = {
    ok: ["live", "Everything works"],
    degraded: ["failed", "Something needs attention"],
    starting: ["collecting", "The service is starting"],
    stopping: ["collecting", "The service is stopping"],
  };
  const PARTS = {
    log: ["Log", "Samples are written to the disk before they are acknowledged."],
    store: ["Store", "Verdicts, alarms and settings are being stored."],
    fitting: ["Fitting", "Models are fitted when they are needed."],
    sinks: ["Alerts", "Alerts reach their receivers."],
    sources: ["Sources", "Samples are read from all sources."],
    apply: ["Detection", "Samples are judged as they come."],
  };

  const FACTS = {
    taken: (n) => `${NN.plural(n, "sample")} taken since the start`,
    refused: (n) => (n ? `${NN.plural(n, "sample")} refused` : ""),
    bytes: (n) => `${NN.bytes(n)} on the disk`,
    checkpoint_s: (n) => (n ? `the last checkpoint took ${NN.number(n, 2)} s` : "no checkpoint yet"),
    running: (n) => (n ? `${NN.plural(n, "fit")} running` : "none running"),
    waiting: (n) => (n ? `${NN.count(n)} waiting` : "none waiting"),
  };

  /** The title of a source or a sink, and what holds while it is well. */
  const named = (name) => {
    if (name.startsWith("source ")) return [`Source ${name.slice(7)}`, "Samples are read from it."];
    if (name.startsWith("sink ")) return [`Receiver ${name.slice(5)}`, "It takes what is sent."];
    return [name, "It works."];
  };

  const row = (ok, name, sentence, more) =>
    h(
      "li",
      { class: `nn-part ${ok ? "" : "nn-part-bad"}` },
      NN.badge(ok ? "live" : "failed", name),
      h("div", {}, h("p", {}, sentence), more),
    );

  class Health {
    constructor() {
      this.head = h("h1", { tabindex: "-1" }, "Health");
      this.body = h("div", {}, h("div", { class: "nn-headline" }, this.head));
      this.element = this.body;
      this.title = "Health";
      this.ready = this.read();
      this.timer = setInterval(() => document.hidden || this.read(), EVERY);
      this.ends = [NN.api.on("resync", () => this.read())];
    }

    async read() {
      try {
        const [health, alerts, windows] = await Promise.all([
          NN.api.get("/health"),
          NN.api.get("/alerts").catch(() => null),
          NN.api.get("/maintenance").catch(() => null),
        ]);
        if (!this.gone) this.show(health, alerts, windows);
      } catch (error) {
        if (!this.shown && error.status !== 401) this.head.replaceChildren(NN.badge("failed", "The service does not answer"));
      }
    }

    show(health, alerts, windows) {
      this.shown = true;
      NN.showHealth(health.status);
      const [sign, text] = STATUS[health.status] || ["failed", health.status];
      const bad = Object.entries(health.parts || {}).filter(([, part]) => !part.ok);
      const focused = document.activeElement && document.activeElement.dataset && document.activeElement.dataset.window;
      this.head.replaceChildren(NN.badge(sign, text));
      const top = document.activeElement === this.head;
      this.body.replaceChildren(
        h(
          "div",
          { class: "nn-headline" },
          this.head,
          bad.length ? bad.map(([name, part]) => h("p", { class: "nn-line" }, `${(PARTS[name] || named(name))[0]}: ${part.message || "not working"}`)) : null,
        ),
        h(
          "div",
          { class: "nn-health" },
          h("section", { class: "nn-list", "aria-label": "Parts" }, h("h2", {}, "Parts"), h("ul", { class: "nn-parts" }, this.parts(health))),
          h("section", { class: "nn-list", "aria-label": "Numbers" }, h("h2", {}, "Numbers"), this.numbers(health)),
          this.alerts(alerts),
          this.windows(windows),
        ),
      );
      if (top) this.head.focus({ preventScroll: true });
      if (focused) this.body.querySelector(`[data-window="${CSS.escape(focused)}"]`)?.focus();
    }

    parts(health) {
      const lag = health.lag_s || 0;
      const behind = health.lag_entries || 0;
      const found = Object.entries(health.parts || {}).map(([name, part]) => {
        const [title, fine] = PARTS[name] || named(name);
        const facts = Object.entries(FACTS).filter(([key]) => typeof part[key] === "number");
        return row(
          part.ok,
          title,
          part.message || (part.ok ? fine : "It does not work; the service tries again by itself."),
          facts.length ? h("p", { class: "nn-facts" }, facts.map(([key, say]) => say(part[key])).filter(Boolean).join(" · ")) : null,
        );
      });
      found.push(
        row(
          lag < 30,
          "Lag",
          behind ? `${NN.plural(behind, "entry", "entries")} of the log wait to be judged; the oldest came ${NN.lasting(lag)} ago.` : "Every sample that came has been judged.",
        ),
      );
      return found;
    }

    numbers(health) {
      const streams = health.streams || {};
      const disk = health.disk || {};
      const memory = health.memory || {};
      const most = Object.entries((memory.names || {}).writers || {})[0];
      const states = [
        ["live", "live"],
        ["collecting", "collecting history"],
        ["fitting", "fitting"],
        ["failed", "whose fit failed"],
      ].filter(([name]) => streams[name]);
      const total = Object.values(streams).reduce((sum, n) => sum + n, 0);
      const pair = (name, value, more) => [h("dt", {}, name), h("dd", {}, h("b", {}, value), more ? h("span", {}, ` ${more}`) : null)];
      return h(
        "dl",
        { class: "nn-pairs nn-numbers" },
        pair("Streams", NN.count(total), states.map(([name, text]) => `${NN.count(streams[name])} ${text}`).join(", ")),
        pair("Samples", NN.count(health.samples || 0), "judged or kept so far"),
        pair("Now", `${NN.number(health.samples_per_s || 0, 3)}`, "samples a second"),
        disk.used !== undefined ? pair("Disk used", NN.bytes(disk.used), "by log, store and models") : null,
        disk.free !== undefined ? pair("Disk free", NN.bytes(disk.free), [disk.total ? `of ${NN.bytes(disk.total)}` : "", disk.free < 1e9 ? "less than 1 GB: make room, or let retention remove more" : ""].filter(Boolean).join("; ")) : null,
        health.position !== undefined ? pair("Log", `${NN.count(health.position)} records`, health.applied === health.position ? "all applied" : `${NN.count(health.applied)} applied`) : null,
        memory.requests ? pair("Requests", NN.bytes(memory.requests.bytes), [`of ${NN.bytes(memory.requests.limit)} of memory that they may take`, memory.requests.refused ? `${NN.count(memory.requests.refused)} had to be sent again` : ""].filter(Boolean).join("; ")) : null,
        memory.names ? pair("Names", NN.bytes(memory.names.bytes), [`of ${NN.bytes(memory.names.limit)} of memory that names of streams and channels may take`, most ? `most by ${most[0] || "the service"}: ${NN.bytes(most[1])}` : ""].filter(Boolean).join("; ")) : null,
        health.subscribers !== undefined ? pair("Pages open", NN.count(health.subscribers)) : null,
        health.version ? pair("Version", health.version) : null,
      );
    }

    alerts(found) {
      const sinks = found ? Object.entries(found.sinks || found.items || found) : [];
      const usable = sinks.filter(([, each]) => each && typeof each === "object" && "waiting" in each);
      return h(
        "section",
        { class: "nn-list", "aria-label": "Alerts" },
        h("h2", {}, "Alerts"),
        usable.length
          ? h(
              "ul",
              { class: "nn-parts" },
              usable.map(([name, each]) =>
                row(
                  !each.failing,
                  name,
                  each.failing
                    ? `${NN.plural(each.failing, "alert")} could not be delivered yet and will be tried again.`
                    : each.waiting
                      ? `${NN.plural(each.waiting, "alert")} on the way.`
                      : "All alerts are delivered.",
                  h("p", { class: "nn-facts" }, `${NN.plural(each.delivered || 0, "alert")} delivered so far${each.oldest ? `; the oldest that waits is of ${NN.moment(NN.seconds(each.oldest))}` : ""}`),
                ),
              ),
            )
          : h("p", { class: "nn-none" }, "No receiver is configured: alarms appear on this page alone. Receivers such as Alertmanager, mail or a webhook are added as [sinks.NAME] in the configuration file."),
      );
    }

    windows(found) {
      const items = (found && (found.items || found)) || [];
      const now = Date.now() / 1000;
      const entry = (each) => {
        const [begin, end] = [NN.seconds(each.begin), NN.seconds(each.end)];
        const active = begin <= now && end > now;
        return h(
          "li",
          { class: "nn-window-row" },
          h(
            "div",
            {},
            h("p", {}, h("strong", {}, each.streams === "*" ? "All streams" : each.streams), " ", active ? h("span", { class: "nn-chip nn-chip-pending" }, "muted now") : h("span", { class: "nn-chip" }, end <= now ? "over" : "to come")),
            h("p", { class: "nn-facts" }, NN.time(begin), " to ", NN.time(end), each.reason ? ` · ${each.reason}` : "", each.who ? ` · ${each.who}` : ""),
          ),
          NN.mayDecide() &&
            h(
              "button",
              {
                type: "button",
                class: "nn-button",
                "data-window": each.id,
                "aria-label": `End the window of ${each.streams}`,
                onclick: async () => {
                  try {
                    await NN.api.remove(`/maintenance/${encodeURIComponent(each.id)}`);
                    NN.say("The window is ended: alerts are sent again.", "good");
                    this.read();
                  } catch (error) {
                    NN.complain(error);
                  }
                },
              },
              active ? "End now" : "Remove",
            ),
        );
      };
      return h(
        "section",
        { class: "nn-list", "aria-label": "Maintenance windows" },
        h("h2", {}, "Maintenance windows"),
        h("p", { class: "nn-note" }, "Alarms that begin in one appear here, but no alert of them is sent. A stream's page has “Mute alerts”."),
        items.length ? h("ul", {}, items.map(entry)) : h("p", { class: "nn-none" }, "None."),
      );
    }

    leave() {
      this.gone = true;
      clearInterval(this.timer);
      this.ends.forEach((end) => end());
    }
  }

  NN.view(/^\/health$/, () => new Health());
})();
