/* What happened, in words: the headline, and the lists of alarms and changes. */
(function () {
  "use strict";
  const h = NN.h;
  const PAGE = 25; // entries of a list before "show more"
  const USUAL = ["back to normal", "changed"]; // why nearly all alarms close: no news, or in the sentence

  const STATUSES = { "in alarm": "alarm", "change pending": "change", "change rejected": "rejected", normal: "live" };
  /** A status as a badge takes it. */
  NN.signOf = (status) => STATUSES[status];

  const newest = (found) =>
    found.reduce((best, each) => (!best || each.number > best.number ? each : best), null);

  /** Since when, kept on one line. */
  const time = (event) => h("span", { class: "nn-time" }, event.since);

  /** What needs attention, and since when, at a glance. */
  NN.headline = function (stream, link) {
    const open = newest(stream.alarms.filter((alarm) => alarm.open));
    const pending = newest(stream.changes.filter((change) => change.state === "pending"));
    const rejected = newest(stream.changes.filter((change) => change.state === "rejected"));
    const last = newest(stream.alarms);
    const lines = [];
    const line = (kind, each, lead) =>
      lines.push(
        h(
          "p",
          { class: `nn-line nn-line-${kind}` },
          h(
            "a",
            {
              href: link(kind, each.number),
              class: `nn-no nn-no-${kind}`,
              "aria-label": `Go to ${kind} ${each.number}`,
            },
            String(each.number),
          ),
          h("span", {}, lead ? h("strong", {}, lead) : null, each.sentence),
        ),
      );
    let status = NN.badge(NN.signOf(stream.status));
    if (open) {
      status = NN.badge(
        "alarm",
        ["In alarm since ", time(open), open.lasted ? `, for ${open.lasted}` : ""],
      );
      line("alarm", open);
    }
    if (pending) {
      if (!open) status = NN.badge("change", ["Change pending since ", time(pending)]);
      line("change", pending, open ? "Change pending: " : "");
    } else if (rejected && !open) {
      status = NN.badge("rejected", ["Rejected change persists since ", time(rejected)]);
      line("change", rejected);
    }
    if (!open && last) {
      if (!lines.length) status = NN.badge("live", "Normal at the end");
      line("alarm", last, ["Last alarm, ", time(last), ": "]);
    } else if (!lines.length) {
      status = NN.badge(
        "live",
        stream.changes.length ? "Normal, no alarms" : "Normal throughout: no alarms, no changes",
      );
    }
    return h(
      "div",
      { class: "nn-headline" },
      h("h1", {}, status),
      lines,
      h("p", { class: "nn-counts" }, counts(stream)),
    );
  };

  function counts(stream) {
    const parts = [];
    const { alarms, changes } = stream;
    const opened = alarms.filter((alarm) => alarm.open).length;
    if (alarms.length)
      parts.push(
        NN.plural(NN.total(stream, "alarms"), "alarm") + (opened ? ` (${opened} open)` : " (none open)"),
      );
    if (changes.length) {
      const states = ["pending", "accepted", "rejected", "reverted"].map((state) => [
        changes.filter((c) => c.state === state).length,
        state,
      ]);
      const there = states.filter(([n]) => n);
      parts.push(
        `${NN.plural(NN.total(stream, "changes"), "change")} (${there.map(([n, state]) => (there.length > 1 ? `${n} ${state}` : state)).join(", ")})`,
      );
    }
    if (stream.found) {
      const { events, found, false: wrong } = stream.found;
      parts.push(`${found} of ${NN.plural(events, "labelled fault")} found`, wrong ? NN.plural(wrong, "false alarm") : "no false alarm");
    }
    parts.push(NN.plural(NN.total(stream, "channels"), "channel"), NN.plural(stream.samples, "sample"));
    if (stream.missing) parts.push(NN.plural(stream.missing, "missing value"));
    return NN.facts(parts);
  }

  /** The lists beside the picture. `link(kind, number)` gives where an entry leads. */
  NN.Lists = class {
    constructor(stream, link) {
      this.stream = stream;
      this.link = link;
      this.alarms = new List(
        "alarm",
        "Alarms",
        stream.alarms,
        (alarm) => this.alarm(alarm),
        {
          newest: ["newest first", (a, b) => b.open - a.open || b.number - a.number],
          severest: ["severest first", (a, b) => b.severity - a.severity || b.ratio - a.ratio],
          longest: ["longest first", (a, b) => b.end - b.start - (a.end - a.start) || b.number - a.number],
        },
        "No alarms.",
        NN.total(stream, "alarms"),
      );
      const order = { pending: 0, rejected: 1 };
      this.changes = new List(
        "change",
        "Changes",
        stream.changes,
        (change) => this.change(change),
        {
          newest: [
            "newest first",
            (a, b) => (order[a.state] ?? 2) - (order[b.state] ?? 2) || b.number - a.number,
          ],
        },
        "No changes: the stream stayed near its accepted normal.",
        NN.total(stream, "changes"),
      );
      const waiting =
        stream.changes.some((change) => change.state === "pending") &&
        !stream.alarms.some((alarm) => alarm.open);
      const both = waiting ? [this.changes, this.alarms] : [this.alarms, this.changes];
      this.element = h(
        "div",
        { class: "nn-lists" },
        both.map((list) => list.element),
        (stream.decisions || []).length > 0 && decisions(stream.decisions),
      );
    }

    mark(kind, number) {
      this.alarms.mark(kind === "alarm" ? number : null);
      this.changes.mark(kind === "change" ? number : null);
    }

    alarm(alarm) {
      const chips = [
        alarm.open && h("span", { class: "nn-chip nn-chip-alarm" }, "open"),
        alarm.cause !== "score" && h("span", { class: "nn-chip" }, alarm.cause),
        alarm.labelled === true && h("span", { class: "nn-chip nn-chip-label" }, "labelled"),
        alarm.labelled === false && h("span", { class: "nn-chip" }, "outside the labels"),
      ];
      const facts = [
        alarm.since,
        alarm.lasted,
        alarm.cause === "score" && alarm.severity ? `severity ${alarm.severity}, ${alarm.word}` : "",
        alarm.cause === "score" && alarm.ratio ? `peak ${NN.number(alarm.ratio, 3)} × the limit` : "",
        alarm.open || USUAL.includes(alarm.reason) ? "" : alarm.reason,
      ];
      return this.entry(
        "alarm",
        alarm,
        chips,
        facts,
        alarm.evidence && alarm.evidence.length ? folded("Evidence", NN.evidenceTable(alarm.evidence, alarm.shares || {})) : null,
      );
    }

    change(change) {
      const facts = [`since ${change.since}`, change.alarm ? `with alarm ${change.alarm}` : ""];
      const chips = [h("span", { class: `nn-chip nn-chip-${change.state}` }, change.state)];
      return this.entry("change", change, chips, facts, change.channels.length ? folded("Levels", NN.levelsTable(change)) : null);
    }

    entry(kind, each, chips, facts, more) {
      return h(
        "li",
        { class: `nn-entry nn-entry-${kind}`, "data-number": each.number },
        h(
          "a",
          { class: "nn-entry-link", href: this.link(kind, each.number) },
          h("span", { class: `nn-no nn-no-${kind}` }, String(each.number)),
          h(
            "span",
            { class: "nn-entry-text" },
            h("span", { class: "nn-facts" }, NN.facts(facts), " ", chips),
            h("span", { class: "nn-sentence" }, each.sentence),
          ),
        ),
        more,
      );
    }
  };

  class List {
    constructor(kind, name, entries, make, orders, none, total) {
      Object.assign(this, { kind, entries: [...entries], make, orders, marked: null, shown: PAGE });
      this.list = h("ol", { class: "nn-entries", "aria-label": name });
      this.more = h("button", {
        type: "button",
        class: "nn-more",
        onclick: () => this.draw((this.shown += 4 * PAGE)),
      });
      const choice = Object.entries(orders).map(([key, [text]]) => h("option", { value: key }, text));
      const select =
        entries.length > 2 &&
        choice.length > 1 &&
        h(
          "select",
          {
            class: "nn-order",
            "aria-label": `Order of ${name.toLowerCase()}`,
            onchange: (event) => this.sort(event.target.value),
          },
          choice,
        );
      this.element = h(
        "section",
        { class: "nn-list", "aria-label": name },
        h(
          "div",
          { class: "nn-list-head" },
          h("h2", {}, name, " ", h("span", { class: "nn-quantity" }, NN.count(total))),
          select,
        ),
        entries.length ? [this.list, this.more] : h("p", { class: "nn-none" }, none),
        total > entries.length &&
          h(
            "p",
            { class: "nn-none nn-left-out" },
            `${NN.count(total - entries.length)} more are not in this file, which would be too large with them.`,
          ),
      );
      this.sort(Object.keys(orders)[0]);
    }

    sort(key) {
      this.entries.sort(this.orders[key][1]);
      this.draw();
    }

    draw() {
      this.list.replaceChildren(...this.entries.slice(0, this.shown).map(this.make));
      const rest = this.entries.length - this.shown;
      this.more.hidden = rest <= 0;
      this.more.textContent = `Show ${NN.count(Math.min(rest, 4 * PAGE))} more`;
      this.point();
    }

    mark(number) {
      this.marked = number;
      const at = this.entries.findIndex((each) => each.number === number);
      if (at >= this.shown) {
        this.shown = at + PAGE;
        this.draw();
      }
      const found = this.point();
      const box = this.element.closest(".nn-aside");
      if (found && box && box.scrollHeight > box.clientHeight) {
        const [a, b] = [found.getBoundingClientRect(), box.getBoundingClientRect()];
        if (a.top < b.top || a.bottom > b.bottom) box.scrollTop += a.top - b.top - 60;
      }
    }

    point() {
      let found = null;
      for (const entry of this.list.children) {
        const is = this.marked !== null && +entry.dataset.number === this.marked;
        if (is) found = entry;
        const link = entry.querySelector(".nn-entry-link");
        if (is) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
        entry.classList.toggle("nn-marked", is);
        const more = entry.querySelector("details");
        if (is && more) more.open = true;
      }
      return found;
    }
  }

  /** What was decided before, as the state has it. */
  const decisions = (items) =>
    h(
      "section",
      { class: "nn-list nn-decisions", "aria-label": "Earlier decisions" },
      h("div", { class: "nn-list-head" }, h("h2", {}, "Earlier decisions ", h("span", { class: "nn-quantity" }, NN.count(items.length)))),
      h(
        "ul",
        { class: "nn-entries" },
        items.map(({ kind, state, sentence, since }) =>
          h("li", { class: "nn-entry" }, h("span", { class: "nn-facts" }, `${kind} since ${since} `, h("span", { class: `nn-chip nn-chip-${state}` }, state)), h("span", { class: "nn-sentence" }, sentence)),
        ),
      ),
    );

  const folded = (name, table) => h("details", { class: "nn-details" }, h("summary", {}, name), table);
})();
