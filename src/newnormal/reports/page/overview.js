/* A fleet at a glance: incidents, and a table of streams sorted by what needs attention. */
(function () {
  "use strict";
  const h = NN.h;
  const PAGE = 100; // rows before "show more"
  const RANK = { "in alarm": 0, "change pending": 1, "change rejected": 2, normal: 3 };

  const last = (stream) =>
    stream.alarms.reduce((best, alarm) => (!best || alarm.start > best.start ? alarm : best), null);
  const newest = (stream) => {
    const open = stream.alarms.filter((alarm) => alarm.open);
    if (open.length) return { kind: "alarm", of: last({ alarms: open }) };
    const waiting = stream.changes
      .filter((change) => change.state === "pending" || change.state === "rejected")
      .at(-1);
    if (waiting) return { kind: "change", of: waiting };
    const found = last(stream);
    return found && { kind: "alarm", of: found };
  };

  const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });
  const ORDERS = {
    attention: () => 0, // as in the report
    name: byName,
    alarms: (a, b) => NN.total(b, "alarms") - NN.total(a, "alarms") || byName(a, b),
    strongest: (a, b) => strongest(b) - strongest(a) || byName(a, b),
  };
  const strongest = (stream) => stream.alarms.reduce((most, alarm) => Math.max(most, alarm.ratio || 0), 0);

  /** The ratio of a stream to its limit, small. */
  NN.sparkline = function (stream, width = 180, height = 30) {
    const line = stream.sparkline;
    if (!line || !line.ratio.length) return h("span", { class: "nn-none" }, "–");
    const title = `Ratio to the limit; ${NN.plural(NN.total(stream, "alarms"), "alarm")}`;
    return NN.spark(line.ratio, title, { width, height, alarms: line.alarms });
  };

  NN.fleetHeadline = function (meta) {
    const { streams, fleet } = meta;
    const count = (status) => streams.filter((stream) => stream.status === status).length;
    const parts = [
      ["in alarm", "in alarm"],
      ["change pending", "with a change pending"],
      ["change rejected", "with a rejected change"],
    ]
      .map(([status, text]) => [count(status), text])
      .filter(([n]) => n);
    const need = parts.reduce((sum, [n]) => sum + n, 0);
    const worst = Object.keys(RANK).find(count) || "normal";
    const verb = need === 1 ? "needs" : "need";
    const text = need
      ? `${NN.count(need)} of ${NN.plural(fleet.streams, "stream")} ${verb} attention`
      : `${NN.plural(fleet.streams, "stream")}, all normal`;
    const open = fleet.incidents.filter((incident) => incident.open).length;
    const total = streams.reduce((sum, stream) => sum + NN.total(stream, "alarms"), 0);
    const facts = [
      ...parts.map(([n, words]) => `${NN.count(n)} ${words}`),
      NN.plural(total, "alarm"),
      fleet.incidents.length
        ? NN.plural(fleet.incidents.length, "incident") + (open ? ` (${open} open)` : "")
        : "",
      fleet.shown < fleet.streams
        ? `the ${NN.count(fleet.shown)} that need attention most are in this file`
        : "",
    ];
    return h(
      "div",
      { class: "nn-headline" },
      h("h1", {}, NN.badge(NN.signOf(worst), text)),
      h(
        "p",
        { class: "nn-counts" },
        NN.facts(facts),
      ),
    );
  };

  NN.incidents = function (meta, link, clock) {
    const found = [...meta.fleet.incidents].sort((a, b) => b.open - a.open || b.start - a.start);
    if (!found.length) return null;
    const known = new Set(meta.streams.map((stream) => stream.name));
    const entry = (incident) => {
      const names = Object.entries(incident.streams);
      const count = incident.count || names.length;
      const links = names
        .slice(0, 8)
        .map(([name, alarm]) =>
          known.has(name) ? h("a", { href: link(name, "alarm", alarm) }, name) : h("span", {}, name),
        );
      return h(
        "li",
        { class: "nn-incident" },
        h("span", { class: "nn-no nn-no-incident" }, String(incident.number)),
        h(
          "div",
          {},
          h(
            "span",
            { class: "nn-facts" },
            incident.end > incident.start
              ? clock.span(incident.start, incident.end)
              : clock.text(incident.start).replace(/:00$/, ""),
            " ",
            incident.open && h("span", { class: "nn-chip nn-chip-alarm" }, "open"),
          ),
          h("p", { class: "nn-sentence" }, incident.sentence),
          h(
            "p",
            { class: "nn-streams" },
            links,
            count > links.length && h("span", {}, `and ${NN.count(count - links.length)} more`),
          ),
        ),
      );
    };
    const list = h("ol", { class: "nn-incidents" }, found.slice(0, 6).map(entry));
    const more =
      found.length > 6 &&
      h(
        "button",
        {
          type: "button",
          class: "nn-more",
          onclick: (event) => {
            list.append(...found.slice(6).map(entry));
            event.target.remove();
          },
        },
        `Show ${NN.count(found.length - 6)} more`,
      );
    return h(
      "section",
      { class: "nn-list", "aria-label": "Incidents" },
      h(
        "div",
        { class: "nn-list-head" },
        h("h2", {}, "Incidents ", h("span", { class: "nn-quantity" }, NN.count(found.length))),
        h("span", { class: "nn-note" }, "alarms of several streams at the same time"),
      ),
      list,
      more,
    );
  };

  /** The table of streams. `link(name)` gives where a row leads. */
  NN.Overview = class {
    constructor(meta, link) {
      Object.assign(this, { meta, link, order: "attention", words: "", status: "", shown: PAGE });
      this.body = h("tbody");
      this.found = h("p", { class: "nn-note", role: "status" });
      this.more = h("button", {
        type: "button",
        class: "nn-more",
        onclick: () => this.draw((this.shown += 4 * PAGE)),
      });
      this.search = h("input", {
        type: "search",
        class: "nn-search",
        placeholder: "Find a stream",
        "aria-label": "Find a stream",
        oninput: (event) => this.change({ words: event.target.value.trim().toLowerCase() }),
      });
      const option = (value, text) => h("option", { value }, text);
      const present = Object.keys(RANK).filter((status) =>
        meta.streams.some((stream) => stream.status === status),
      );
      const status = h(
        "select",
        { "aria-label": "Status", onchange: (event) => this.change({ status: event.target.value }) },
        option("", "any status"),
        present.map((each) => option(each, each)),
      );
      const order = h(
        "select",
        { "aria-label": "Order of streams", onchange: (event) => this.change({ order: event.target.value }) },
        option("attention", "what needs attention first"),
        option("alarms", "most alarms first"),
        option("strongest", "strongest alarm first"),
        option("name", "by name"),
      );
      const heads = [
        ["Stream", ""],
        ["Status", ""],
        ["Ratio", "nn-col-spark"],
        ["Alarms", "nn-col-number"],
        ["Newest alarm", ""],
      ];
      this.element = h(
        "section",
        { class: "nn-list nn-fleet", "aria-label": "Streams" },
        h(
          "div",
          { class: "nn-list-head" },
          h("h2", {}, "Streams ", h("span", { class: "nn-quantity" }, NN.count(meta.streams.length))),
          h("div", { class: "nn-filters" }, this.search, present.length > 1 && status, order),
        ),
        this.found,
        h(
          "table",
          { class: "nn-table" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              heads.map(([text, name]) => h("th", { scope: "col", class: name }, text)),
            ),
          ),
          this.body,
        ),
        this.more,
      );
      this.draw();
    }

    change(what) {
      Object.assign(this, what, { shown: PAGE });
      this.draw();
    }

    draw() {
      const kept = this.meta.streams
        .filter(
          (stream) =>
            (!this.status || stream.status === this.status) && stream.name.toLowerCase().includes(this.words),
        )
        .sort(ORDERS[this.order]);
      this.body.replaceChildren(...kept.slice(0, this.shown).map((stream) => this.row(stream)));
      const some = this.words || this.status;
      this.found.textContent = some ? `${NN.plural(kept.length, "stream")} found` : "";
      this.found.hidden = !some;
      this.more.hidden = kept.length <= this.shown;
      this.more.textContent = `Show ${NN.count(Math.min(4 * PAGE, kept.length - this.shown))} more`;
    }

    row(stream) {
      const found = newest(stream);
      const href = this.link(stream.name);
      const open = (event) => {
        if (!event.target.closest("a")) location.hash = href.slice(1);
      };
      return h(
        "tr",
        { onclick: open, "data-stream": stream.name },
        h("th", { scope: "row" }, h("a", { href }, stream.name)),
        h("td", { class: "nn-cell-status" }, NN.badge(NN.signOf(stream.status))),
        h("td", { class: "nn-cell-spark" }, NN.sparkline(stream)),
        h("td", { class: "nn-cell-number" }, NN.count(NN.total(stream, "alarms"))),
        h(
          "td",
          { class: "nn-cell-newest" },
          found
            ? [
                h("span", { class: "nn-facts" }, found.of.since),
                " ",
                h("span", { class: "nn-sentence" }, found.of.sentence),
              ]
            : h("span", { class: "nn-none" }, "no alarms"),
        ),
      );
    }
  };
})();
