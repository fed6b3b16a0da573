/* All streams at a glance: what needs attention first. */
(function () {
  "use strict";
  const h = NN.h;
  const PAGE = 40; // rows read at once
  const RENEW = 5_000; // ms between two looks at the rows that are seen

  // How many streams have each status, in the order of what matters.
  const STATUSES = [
    ["alarm", "in alarm", { attention: "alarm" }],
    ["change", "change pending", { attention: "change" }],
    ["channels", "other channels", { attention: "channels" }],
    ["silence", "silent", { attention: "silence" }],
    ["failed", "fit failed", { attention: "failed" }],
    ["fitting", "fitting", { state: "fitting" }],
    ["collecting", "collecting", { state: "collecting" }],
    ["normal", "normal", { attention: "none", state: "live" }],
  ];
  const NEED = ["alarm", "change", "channels", "silence", "failed"];
  const ENDS = { closed: "over: ", reverted: "over: ", accepted: "accepted: ", rejected: "rejected: " };
  const ORDERS = [
    ["attention", "attention first"],
    ["ratio", "highest ratio first"],
    ["newest", "newest sample first"],
    ["name", "by name"],
  ];

  NN.streamOf = function (raw) {
    const stream = { ...raw };
    for (const name of ["newest", "last_alarm"]) stream[name] = NN.seconds(raw[name]);
    stream.sentence = NN.sentence(raw.sentence);
    stream.since = raw.attention && stream.sentence !== raw.sentence ? NN.seconds(`${/[\d:.T-]+$/.exec(raw.sentence.replace(/Z$/, ""))[0]}Z`) : null;
    return stream;
  };

  /** The ratios of the last stretches of a stream. */
  function spark(ratios) {
    const known = ratios.filter((each) => each !== null);
    const top = known.reduce((most, each) => Math.max(most, each), 0);
    const title = known.length
      ? `Ratio to the limit: now ${NN.ratio(known.at(-1))}, highest ${NN.ratio(top)}; the dashed line is 1`
      : "Not judged yet";
    return NN.spark(ratios, title, { wide: 30 }); // as many as lists of streams have
  }

  /** How many streams need a person. */
  NN.needOf = (counts) => NEED.reduce((sum, name) => sum + (counts[name] || 0), 0);

  class Overview {
    constructor(place) {
      this.query = {
        search: place.query.search || "",
        status: place.query.status || "",
        sort: ORDERS.some(([name]) => name === place.query.sort) ? place.query.sort : "attention",
      };
      this.build();
      this.rows = new NN.Rows({
        read: (offset, limit) => this.read(offset, limit),
        page: PAGE,
        make: (stream) => this.row(stream),
        same: (a, b) => JSON.stringify(a) === JSON.stringify(b),
        label: "Streams",
        height: () => (innerWidth <= 700 ? 132 : innerWidth <= 1000 ? 76 : 58),
      });
      const column = (text, name) => h("span", { role: "columnheader", class: name }, text);
      this.rows.element.append(
        h(
          "div",
          { class: "nn-rows-head", role: "rowgroup" },
          h(
            "div",
            { class: "nn-row", role: "row", "aria-rowindex": "1" },
            column("Status", "nn-c-status"),
            column("Stream", "nn-c-name"),
            column("Ratio to the limit", "nn-c-spark"),
            column("What happened last", "nn-c-what"),
            column("Newest sample", "nn-c-newest"),
          ),
        ),
        this.rows.body,
      );
      this.list.append(this.found, this.rows.element, this.none);
      this.ends = [
        NN.api.on("event", (event) => this.happened(event)),
        NN.api.on("resync", () => this.restart()),
        NN.api.on("decided", () => this.soon()),
      ];
      this.timer = setInterval(() => this.renew(), RENEW);
    }

    build() {
      const { query } = this;
      this.head = h("h1", { tabindex: "-1" }, "Streams");
      this.filters = h("div", { class: "nn-counters", role: "group", "aria-label": "Filter by status" });
      this.incidents = h("div", {});
      this.found = h("p", { class: "nn-note", role: "status" });
      this.none = h("p", { class: "nn-none", hidden: true });
      this.search = h("input", {
        type: "search",
        class: "nn-search",
        placeholder: "Find a stream",
        "aria-label": "Find a stream",
        value: query.search,
        oninput: () => {
          clearTimeout(this.typed);
          this.typed = setTimeout(() => this.ask({ search: this.search.value.trim() }), 200);
        },
      });
      this.sort = h(
        "select",
        { "aria-label": "Order of streams", onchange: () => this.ask({ sort: this.sort.value }) },
        ORDERS.map(([name, text]) => h("option", { value: name, selected: name === query.sort }, text)),
      );
      this.list = h(
        "section",
        { class: "nn-list nn-overview", "aria-label": "Streams" },
        h("div", { class: "nn-list-head" }, this.filters, h("div", { class: "nn-filters" }, this.search, this.sort)),
      );
      this.element = h("div", {}, h("div", { class: "nn-headline" }, this.head));
      this.title = "Streams";
    }

    /** Ask for other streams, or another order; the address keeps it. */
    ask(what) {
      Object.assign(this.query, what);
      NN.remember({ ...this.query, sort: this.query.sort === "attention" ? "" : this.query.sort });
      this.restart();
    }

    parameters() {
      const { search, sort, status } = this.query;
      const of = STATUSES.find(([name]) => name === status);
      return { search, sort, ...(of ? of[2] : {}) };
    }

    async read(offset, limit) {
      const found = await NN.api.get("/streams", { ...this.parameters(), offset: offset || null, limit });
      found.items = found.items.map(NN.streamOf);
      NN.learnNames(found.items);
      NN.takeCounts(found);
      return found;
    }

    async start(scroll) {
      await this.restart();
      if (scroll) {
        scrollTo(0, scroll);
        this.rows.draw();
      }
    }

    async restart() {
      // The first time, all comes at once: nothing moves.
      const first = !this.list.parentNode;
      try {
        const [found] = await Promise.all([this.rows.restart(), first && this.readIncidents()]);
        if (!found) return;
        this.describe(found);
        if (!first) this.readIncidents();
      } catch (error) {
        if (first) this.element.append(this.incidents, this.list);
        if (!this.rows.rows.length) {
          this.none.hidden = false;
          this.none.textContent = `${error.message} ${error.hint || ""}`;
        }
        NN.complain(error);
      }
    }

    /** What needs attention, in words and numbers. */
    describe(found) {
      const { counts } = found;
      const all = found.streams;
      const filtered = this.query.search || this.query.status;
      if (!all && !filtered) {
        const first = NN.firstStart();
        this.element.replaceChildren(first);
        NN.title("First start");
        this.empty = true;
        return;
      }
      if (this.empty) return void NN.reload(); // the first stream is there
      if (!this.list.parentNode) this.element.append(this.incidents, this.list);
      const need = NN.needOf(counts);
      counts.normal = all - need - (counts.fitting || 0) - (counts.collecting || 0);
      const worst = STATUSES.map(([name]) => name).find((name) => NEED.includes(name) && counts[name]);
      const early = !need && counts.normal <= 0;
      const text = need
        ? `${NN.count(need)} of ${NN.plural(all, "stream")} ${need === 1 ? "needs" : "need"} attention`
        : early
          ? `${NN.plural(all, "stream")}, none live yet: what is normal is being learned`
          : `${NN.plural(all, "stream")}, nothing needs attention`;
      this.head.replaceChildren(NN.badge(need ? worst : early ? "collecting" : "live", text));
      this.count(counts, all);
      const shown = this.rows.total || 0;
      this.found.textContent = filtered ? `${NN.plural(found.total, "stream")} found` : "";
      this.found.hidden = !filtered;
      this.none.hidden = shown > 0;
      this.none.textContent = "No stream is like this.";
    }

    count(counts, all) {
      const { status } = this.query;
      const button = (name, number, text) =>
        h(
          "button",
          {
            type: "button",
            class: `nn-counter nn-counter-${name || "all"}`,
            "aria-pressed": String(status === name),
            onclick: () => this.ask({ status: status === name ? "" : name }),
          },
          h("b", {}, NN.count(number)),
          name ? NN.badge(name === "normal" ? "live" : name, text) : h("span", {}, text),
        );
      this.filters.replaceChildren(
        button("", all, "all"),
        ...STATUSES.filter(([name]) => counts[name] || status === name).map(([name, text]) =>
          button(name, counts[name] || 0, text),
        ),
      );
    }

    async readIncidents() {
      try {
        const found = await NN.api.get("/items", { kind: "incident", open: true, limit: 4 });
        const items = found.items.map(NN.itemOf);
        this.incidents.replaceChildren(...(items.length ? [this.showIncidents(items)] : []));
        this.rows.soon(); // the list has moved
      } catch {
        // the list says what is wrong
      }
    }

    showIncidents(items) {
      return h(
        "section",
        { class: "nn-list nn-open-incidents", "aria-label": "Incidents" },
        h(
          "ol",
          { class: "nn-incidents" },
          items.map((item) =>
            h(
              "li",
              { class: "nn-incident" },
              h(
                "div",
                {},
                h(
                  "p",
                  { class: "nn-facts" },
                  h("a", { href: NN.link(["item", item.key]) }, h("strong", {}, NN.itemName(item))),
                  " · ",
                  NN.duration(item),
                ),
                h("p", { class: "nn-sentence", title: item.sentence }, item.sentence),
              ),
            ),
          ),
        ),
      );
    }

    row(stream) {
      const href = NN.link(["stream", stream.id]);
      const status = NN.statusOf(stream);
      const early = stream.state === "collecting" || stream.state === "fitting";
      const facts = [];
      const since = stream.attention === "alarm" ? stream.last_alarm : stream.since;
      if (since !== null) {
        facts.push("since ", NN.time(since));
        if (stream.newest > since) facts.push(` · for ${NN.lasting(stream.newest - since)}`);
      }
      if (!facts.length && stream.last_alarm !== null) facts.push("last alarm ", NN.time(stream.last_alarm));
      const last = stream.sentence ? `${ENDS[stream.item_state] || ""}${stream.sentence}` : "no alarms so far";
      const what = stream.problem || (early ? NN.progress(stream) : last);
      const ratio = typeof stream.ratio === "number" ? stream.ratio : null;
      return h(
        "div",
        {
          class: `nn-row nn-row-${status}`,
          role: "row",
          "data-row": stream.id,
          "data-stream": stream.name,
          onclick: (event) => {
            if (!event.target.closest("a") && !String(getSelection())) location.hash = href;
          },
        },
        h("span", { role: "cell", class: "nn-c-status" }, NN.badge(status)),
        h("span", { role: "rowheader", class: "nn-c-name" }, h("a", { href, title: stream.name }, NN.name(stream.name))),
        h(
          "span",
          { role: "cell", class: "nn-c-spark" },
          (stream.sparkline || []).length ? spark(stream.sparkline) : null,
          ratio === null ? null : h("small", { class: ratio >= 1 ? "nn-bad" : "", title: "Ratio to the limit, newest sample" }, `${NN.ratio(ratio)} ×`),
        ),
        h(
          "span",
          { role: "cell", class: "nn-c-what" },
          h("span", { class: "nn-what", title: what }, what),
          facts.length && !early ? h("span", { class: "nn-facts" }, facts) : null,
        ),
        h("span", { role: "cell", class: "nn-c-newest" }, stream.newest === null ? "none yet" : NN.time(stream.newest, NN.ago(stream.newest) || NN.moment(stream.newest))),
      );
    }

    /** Something happened: what is seen may be another. */
    happened(event) {
      if (event.kind !== "comment" && event.kind !== "updated") this.soon();
    }

    soon() {
      if (this.waiting) return;
      this.waiting = setTimeout(() => {
        this.waiting = 0;
        this.renew();
      }, 300);
    }

    /** Read what is seen once more, where it is: a reader's place stays theirs. */
    async renew() {
      if (document.hidden || this.gone || this.renewing || NN.api.state.lostSince !== null) return;
      this.renewing = true;
      try {
        const found = this.rows.total ? await this.rows.renew() : await this.rows.restart();
        if (found) this.describe(found);
        if (this.rows.element.getBoundingClientRect().top > 0) this.readIncidents();
      } catch {
        // the banner says that the service is gone
      } finally {
        this.renewing = false;
      }
    }

    keys(event) {
      if (event.key === "j" || event.key === "ArrowDown") this.rows.step(1);
      else if (event.key === "k" || event.key === "ArrowUp") this.rows.step(-1);
      else return false;
      return true;
    }

    takes(place) {
      if (place.path !== "/" || this.empty) return false;
      const { search = "", status = "", sort = "attention" } = place.query;
      const { query } = this;
      if (search === query.search && status === query.status && sort === query.sort) return true;
      Object.assign(query, { search, status, sort });
      this.search.value = search;
      this.sort.value = sort;
      this.restart();
      return true;
    }

    leave() {
      this.gone = true;
      this.rows.leave();
      clearInterval(this.timer);
      clearTimeout(this.waiting);
      this.ends.forEach((end) => end());
    }
  }

  NN.view(/^\/$/, (place, scroll) => {
    const made = new Overview(place);
    made.ready = made.start(scroll);
    return made;
  });
})();
