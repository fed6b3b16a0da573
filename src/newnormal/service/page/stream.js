/* One stream: what happens in words, its picture as samples come, what happened before, its models. */
(function () {
  "use strict";
  const h = NN.h;
  const PAGE = 25;
  const HOUR = 3600;
  const RANGES = [
    ["1 h", HOUR],
    ["6 h", 6 * HOUR],
    ["1 d", 24 * HOUR],
    ["7 d", 168 * HOUR],
    ["30 d", 720 * HOUR],
    ["All", Infinity],
  ];
  const JUDGED = [{ columns: { "expected:0": 1, "least:0": 1, "ratio:0": 1 } }]; // as a report's blocks say what there is
  const SHOWN = 360; // samples of the first range at least

  /** Give an element other content, unless that looks the same. */
  function fill(box, content) {
    const made = h("div", {}, content);
    if (made.innerHTML !== box.innerHTML) box.replaceChildren(...made.childNodes);
  }

  /** Whether a change began with an alarm, so that a decision about it is one about both. */
  const beganWith = (change, alarm) =>
    change.kind === "change" && alarm.kind === "alarm" && change.generation === alarm.generation && change.body.alarm === alarm.number;

  class StreamView {
    constructor(id, query) {
      Object.assign(this, { id, query, items: [], cursor: null, picture: null, stream: null, marked: query.item || null });
      this.top = h("h1", { tabindex: "-1" });
      this.said = h("div", {});
      this.cards = h("div", {});
      this.counts = h("p", { class: "nn-counts" });
      this.top.textContent = "Reading the stream …";
      this.head = h("div", { class: "nn-headline nn-stream-head" }, this.top, this.said, this.cards, this.counts);
      this.box = h("div", { class: "nn-box" });
      this.list = h("ol", { class: "nn-entries", "aria-label": "What happened" });
      this.quantity = h("span", { class: "nn-quantity" });
      this.more = h("button", { type: "button", class: "nn-more", hidden: true, onclick: () => this.readItems(true) }, "Show older ones");
      this.none = h("p", { class: "nn-none" }, "Nothing so far.");
      this.models = h("div", {});
      this.aside = h(
        "aside",
        { class: "nn-aside", "aria-label": "What happened" },
        h(
          "section",
          { class: "nn-list", "aria-label": "Alarms and changes" },
          h("div", { class: "nn-list-head" }, h("h2", {}, "Alarms and changes ", this.quantity)),
          this.list,
          this.none,
          this.more,
        ),
        this.models,
      );
      this.columns = h("div", { class: "nn-columns", hidden: true }, this.box, this.aside); // until there is a picture
      this.element = h("div", {}, h("p", { class: "nn-back" }, h("a", { href: "#/" }, "‹ All streams")), this.head, this.columns);
      this.title = "Stream";
      this.ends = [
        NN.api.on("tick", (streams) => this.tick(streams)),
        NN.api.on("event", (event) => this.happened(event)),
        NN.api.on("resync", () => this.renew(true)),
        NN.api.on("seen", () => this.behind && this.tick({ [this.id]: true })),
      ];
      this.clock = setInterval(() => this.stream && this.describe(), 15_000);
      this.ready = this.start();
    }

    async start() {
      try {
        await Promise.all([this.read(), this.readItems()]);
        if (this.gone) return;
        this.listItems();
        this.readModels();
        await this.draw();
      } catch (error) {
        if (this.gone || error.name === "AbortError" || error.status === 401) return;
        this.columns.hidden = !this.stream;
        const missing = error.status === 404;
        this.top.textContent = missing ? "There is no such stream" : "This stream cannot be shown";
        this.said.replaceChildren(h("p", { class: "nn-line" }, missing ? "It may have been removed." : `${error.message} ${error.hint || ""}`));
        this.cards.replaceChildren();
        this.counts.replaceChildren();
      }
    }

    async read() {
      const stream = NN.streamOf(await NN.api.get(`/streams/${this.id}`));
      if (this.gone) return;
      this.stream = stream;
      NN.learnNames([stream]);
      NN.title(stream.name);
      this.describe();
    }

    /* ---------------------------------------------------------------- in words */

    /**
     * Say what happens. It is said again with every sample: cards and buttons stay the same elements
     * until what they are about has changed, so that focus and a click that has begun are not lost.
     */
    describe() {
      if (!this.stream || !this.listed) return; // both are said at once
      const { status, lines, cards } = this.situation();
      fill(this.top, [h("span", { class: "nn-stream-name" }, NN.name(this.stream.name)), " ", status]);
      fill(this.said, lines);
      const made = cards.map((items, k) => this.card(items, k > 0));
      const before = [...this.cards.children];
      if (made.length !== before.length || made.some((card, k) => card !== before[k])) {
        const focused = document.activeElement;
        const verb = this.cards.contains(focused) ? focused.dataset.verb : null;
        this.cards.replaceChildren(...made);
        if (this.cards.contains(focused)) focused.focus({ preventScroll: true });
        else if (verb) (this.cards.querySelector(`[data-verb=${verb}]`) || this.top).focus({ preventScroll: true });
      }
      fill(this.counts, this.facts());
    }

    /** The status beside the name, lines below it, and the items of each card. */
    situation() {
      const { stream } = this;
      const advice = (text) => h("p", { class: "nn-advice" }, h("strong", {}, "What to do: "), text);
      const line = (...parts) => h("p", { class: "nn-line" }, h("span", {}, parts));
      const open = this.items.filter(NN.isOpen);
      const rank = { alarm: 0, change: 1, channels: 2, silence: 3 };
      open.sort((a, b) => rank[a.kind] - rank[b.kind] || b.number - a.number);
      const first = open[0];
      if (stream.attention === "silence" && !open.some((item) => item.kind === "silence")) {
        // Others are silent, too: what is open about it is an incident.
        return {
          status: NN.badge("silence", ["Silent since ", NN.time(stream.newest)]),
          lines: [
            line(h("a", { href: NN.link(["item", stream.item]) }, "Incident"), ": ", stream.sentence),
            advice(NN.advice({ kind: "incident", state: "open", body: { cause: "silence" } })),
          ],
          cards: [],
        };
      }
      if (first && stream.state === "live") {
        first.seen = stream.newest;
        const passed = Math.max(first.updated, stream.newest || 0) - first.opened;
        const since = ["since ", NN.time(first.opened), passed > 0 ? `, for ${NN.lasting(passed)}` : ""];
        const words = {
          alarm: "In alarm ",
          change: first.state === "rejected" ? "A rejected change persists " : "Change pending ",
          silence: "Silent ",
          channels: "Other channels ",
        }[first.kind];
        const change = open.find((item) => beganWith(item, first));
        const next = open.find((item) => item !== first && item !== change);
        const cards = [change ? [first, change] : [first], ...(next ? [[next]] : [])];
        return { status: NN.badge(first.kind, [words, since]), lines: [], cards };
      }
      if (stream.state === "collecting")
        return {
          status: NN.badge("collecting", `Collecting history: ${NN.progress(stream)}`),
          lines: [this.bar(), line("Its samples are kept. When there are enough, a model of what is normal is fitted and the stream goes live.")],
          cards: [],
        };
      if (stream.state === "fitting")
        return {
          status: NN.badge("fitting", `Learning what is normal from ${NN.plural(stream.samples, "sample")}`),
          lines: [line("Samples that come in the meantime are kept, and judged as soon as the model is there. Usually this takes less than a minute.")],
          cards: [],
        };
      if (stream.state === "failed")
        return {
          status: NN.badge("failed", "No model could be fitted"),
          lines: [line(stream.problem), advice("check what the stream sends. It goes on collecting, and the fit is tried again.")],
          cards: [],
        };
      const last = this.items.find((item) => item.kind === "alarm");
      return {
        status: NN.badge("live", last ? "Normal now" : "Normal, no alarms so far"),
        lines: last ? [line(h("strong", {}, ["Last alarm, ", NN.time(last.opened), ": "]), last.sentence)] : [],
        cards: [],
      };
    }

    /**
     * What is open: an item, or an alarm with the change that began with it, and what may be decided.
     * The buttons are those of the last item: a decision about a change is one about its alarm.
     */
    card(items, besides) {
      const stamp = [besides, ...items.map((item) => `${item.key} ${item.state}`)].join(" ");
      const there = [...this.cards.children].find((each) => each.dataset.stamp === stamp);
      const made = there || this.newCard(items, stamp, besides);
      Object.assign(made.decided, items.at(-1)); // what its buttons decide about
      items.forEach((item, k) => {
        const named = besides || k > 0 ? h("strong", {}, `${NN.kindText(item.kind)} ${NN.stateText(item)}: `) : null;
        fill(made.lines[k], h("span", {}, named, item.sentence));
      });
      return made;
    }

    newCard(items, stamp, besides) {
      const decided = { ...items.at(-1) };
      const decide = NN.decisions(decided, () => this.renew(true));
      const lines = items.map(() => h("p", { class: "nn-line" }));
      const made = h(
        "div",
        { class: `nn-now nn-now-${items[0].kind}`, "data-now": items.map((item) => item.key).join(" "), "data-stamp": stamp },
        lines,
        besides ? null : h("p", { class: "nn-advice" }, h("strong", {}, "What to do: "), NN.advice(decided)),
        decide.length ? h("div", { class: "nn-decide" }, decide) : null,
      );
      return Object.assign(made, { decided, lines });
    }

    bar() {
      const { samples, needed } = this.stream;
      return h("progress", { class: "nn-progress", max: needed || 1, value: Math.min(samples, needed || 1), "aria-label": "History collected" });
    }

    facts() {
      const { stream } = this;
      const counts = stream.counts || {};
      const odd = [
        ["late", "late"],
        ["duplicate", "duplicate"],
        ["out_of_order", "out of order"],
        ["jumped", "far ahead"],
        ["replaced", "replaced by history"],
      ]
        .filter(([name]) => counts[name])
        .map(([name, text]) => `${NN.count(counts[name])} ${text}`);
      const parts = [
        NN.plural((stream.channels || []).length, "channel"),
        NN.plural(stream.samples, "sample"),
        stream.period ? `one every ${NN.lasting(stream.period)}` : "",
        stream.newest === null ? "" : ["newest ", NN.time(stream.newest, NN.ago(stream.newest) || NN.moment(stream.newest))],
        typeof stream.ratio === "number" ? `ratio ${NN.ratio(stream.ratio)}` : "",
        typeof stream.distance === "number" ? `distance from normal ${NN.ratio(stream.distance)} × the limit` : "",
        odd.length ? `samples ${odd.join(", ")}` : "",
      ];
      return NN.facts(parts);
    }

    /* ---------------------------------------------------------------- the picture */

    async draw() {
      const { stream: data } = await NN.api.get(`/streams/${this.id}/picture`);
      if (this.gone) return;
      if (data.start === null || data.start === undefined || !data.samples) {
        this.box.replaceChildren(h("p", { class: "nn-none" }, "No samples yet: the picture appears with the first ones."));
        this.columns.hidden = false;
        return;
      }
      this.shape = shape(data);
      this.number(data);
      const positions = this.order(data);
      const names = data.channels.map((channel) => channel.name);
      const full = [data.start, Math.max(data.end, data.start + 1)];
      const provider = new NN.Remote(this.id, names, positions, full);
      const kept = this.picture ? { view: this.picture.view, following: this.picture.following, all: this.picture.all } : null;
      await provider.ready;
      if (this.gone) return provider.leave();
      this.drop();
      this.columns.hidden = false; // a picture needs its width
      this.provider = provider;
      this.picture = new NN.LivePicture(this.box, { ...data, blocks: this.stream.generation ? JUDGED : [] }, provider, { kind: "time", zone: NN.zone }, {
        onmark: (kind, number) => this.pick(kind, number),
        onview: () => this.viewed(),
      });
      this.picture.frame.classList.toggle("nn-unjudged", !this.stream.generation);
      this.tools();
      if (kept) {
        this.picture.all = kept.all;
        this.picture.arrange();
        this.show(kept.view, kept.following);
      } else this.open();
      return undefined;
    }

    /** Put the channels of what is open first, then those that were concerned. Gives where they were. */
    order(data) {
      const open = this.items.filter(NN.isOpen).flatMap((item) => Object.keys((item.body.peak || {}).channels || {}).concat(Array.isArray(item.body.channels) ? item.body.channels : []));
      const rank = (k) => {
        const at = open.indexOf(data.channels[k].name);
        return at < 0 ? open.length : at;
      };
      const places = data.channels.map((_, k) => k);
      places.sort((a, b) => rank(a) - rank(b) || data.channels[b].concern - data.channels[a].concern || a - b);
      data.channels = places.map((k) => data.channels[k]);
      return places;
    }

    /** Numbers begin anew with every model: tell them apart where there are several. */
    number(data) {
      const events = [...data.alarms, ...data.changes];
      const several = new Set(events.map((each) => each.generation)).size > 1;
      this.keys_ = new Map();
      this.numbers = new Map();
      for (const [kind, found] of [["alarm", data.alarms], ["change", data.changes]])
        for (const each of found) {
          if (several) each.number = `${each.generation}.${each.number}`;
          this.keys_.set(`${kind} ${each.number}`, each.key);
          this.numbers.set(each.key, each.number);
        }
    }

    drop() {
      if (this.provider) this.provider.leave();
      if (this.picture) this.picture.destroy();
      this.picture = null;
    }

    tools() {
      const { picture } = this;
      this.live = h("button", { type: "button", class: "nn-button nn-live", title: "Follow the newest samples (l)", onclick: () => picture.follow() }, h("span", { class: "nn-live-sign", "aria-hidden": "true" }), "Live");
      this.ranges = RANGES.map(([text, span]) =>
        h("button", { type: "button", class: "nn-button nn-range-button", "data-span": span, onclick: () => this.range(span) }, text),
      );
      const bar = h("div", { class: "nn-ranges", role: "toolbar", "aria-label": "Length of time" }, this.live, this.ranges);
      const top = picture.frame.querySelector(".nn-top");
      const all = picture.frame.querySelector(".nn-all");
      if (all) all.remove(); // it is among the ranges
      top.prepend(bar);
    }

    range(span) {
      if (span === Infinity) this.picture.showAll();
      else this.picture.follow(span);
    }

    /** The range to begin with: of the address, of what is open, or the newest samples. */
    open() {
      const { picture, query } = this;
      const [from, to] = [Number(query.from), Number(query.to)];
      if (query.from && query.to && to > from) picture.show(from, to, true);
      else {
        const [start, end] = picture.full;
        const whole = end - start;
        const period = picture.stream.period || whole / Math.max(1, picture.stream.samples);
        const open = this.items.find(NN.isOpen); // its beginning is to be seen
        const needed = Math.max(SHOWN * period, open ? 1.15 * (end - open.opened) : 0);
        const fit = RANGES.find(([, span]) => span >= needed);
        const span = query.span ? Number(query.span) : fit ? fit[1] : Infinity;
        if (span < whole) picture.show(end - span, end, true);
        else picture.show(start, end, true);
      }
      if (this.marked) this.mark(this.marked, Boolean(query.from));
      this.viewed(true);
    }

    show(view, following) {
      const { picture } = this;
      if (following) picture.show(picture.full[1] - (view[1] - view[0]), picture.full[1], true);
      else picture.show(...view, true);
      this.viewed(true);
    }

    /** The range has changed: buttons and address say so. */
    viewed(quiet) {
      const { picture } = this;
      if (!picture || !this.ranges) return;
      const following = picture.following;
      const span = picture.view[1] - picture.view[0];
      const whole = picture.whole();
      this.live.setAttribute("aria-pressed", String(following));
      for (const each of this.ranges) {
        const of = Number(each.dataset.span);
        const is = of === Infinity ? whole : !whole && following && Math.abs(span / of - 1) < 0.02;
        each.setAttribute("aria-pressed", String(is));
      }
      if (quiet) return;
      clearTimeout(this.remembering);
      this.remembering = setTimeout(() => {
        if (this.gone) return;
        const [from, to] = picture.view;
        const range = whole ? { span: "Infinity" } : following ? { span: Math.round(span) } : { from: +from.toPrecision(14), to: +to.toPrecision(14) };
        this.query = { ...range, item: this.marked };
        NN.remember(this.query);
      }, 250);
    }

    /* ---------------------------------------------------------------- what happened */

    async readItems(more) {
      const found = await NN.api.get("/items", {
        stream: this.id,
        cursor: more ? this.cursor : null,
        limit: more ? 4 * PAGE : Math.max(PAGE, Math.min(500, this.items.length)),
      });
      if (this.gone) return;
      const items = found.items.map(NN.itemOf);
      this.cursor = found.cursor || null;
      this.items = more ? this.items.concat(items) : items;
      this.items.sort((a, b) => NN.isOpen(b) - NN.isOpen(a) || b.opened - a.opened);
      this.listed = true;
      this.describe();
      if (this.stream) this.listItems();
    }

    listItems() {
      this.quantity.textContent = this.items.length ? `${NN.count(this.items.length)}${this.cursor ? "+" : ""}` : "";
      this.none.hidden = this.items.length > 0;
      this.none.textContent = this.stream.state === "live" ? "Nothing so far: no alarms, no changes." : "Nothing yet: alarms begin when the stream is live.";
      this.more.hidden = !this.cursor;
      // Entries that are as they were stay the same elements: focus stays where it is.
      const before = new Map([...this.list.children].map((each) => [each.dataset.item, each]));
      const focused = document.activeElement;
      const after = this.items.map((item) => {
        const above = Boolean(this.head.querySelector(`[data-now~="${CSS.escape(item.key)}"]`)); // has the buttons
        const stamp = JSON.stringify([above, item.state, item.updated, item.ended, item.sentence]);
        const there = before.get(item.key);
        const same = there && there.dataset.stamp === stamp;
        const entry = same ? there : this.entry(item, above, there && there.querySelector("details").open);
        entry.dataset.stamp = stamp;
        fill(entry.querySelector(".nn-facts"), [
          h("span", {}, `${NN.kindText(item.kind)} · `),
          NN.duration(item),
          " ",
          item.state === "closed" ? null : NN.chip(item),
        ]);
        return entry;
      });
      if (after.length !== before.size || after.some((entry, k) => entry !== this.list.children[k])) {
        this.list.replaceChildren(...after);
        if (this.list.contains(focused)) focused.focus({ preventScroll: true });
      }
      this.point();
    }

    entry(item, above, unfolded) {
      const evidence = NN.evidence(item);
      const decide = NN.isOpen(item) && !above ? NN.decisions(item, () => this.renew(true)) : [];
      return h(
        "li",
        { class: `nn-entry nn-entry-${item.kind === "change" ? "change" : "alarm"}`, "data-item": item.key },
        h(
          "a",
          {
            class: "nn-entry-link",
            href: NN.link(["stream", this.id], { item: item.key }),
            onclick: (event) => {
              if (event.ctrlKey || event.metaKey) return;
              event.preventDefault();
              this.mark(item.key);
              this.viewed();
            },
          },
          h("span", { class: `nn-no nn-no-${item.kind === "change" ? "change" : item.kind === "alarm" ? "alarm" : "incident"}` }, String(item.number || "·")),
          h(
            "span",
            { class: "nn-entry-text" },
            h("span", { class: "nn-facts" }),
            h("span", { class: "nn-sentence" }, item.sentence),
          ),
        ),
        h(
          "details",
          { class: "nn-details", open: unfolded },
          h("summary", {}, "Evidence and comments"),
          evidence,
          NN.peak(item) && h("p", { class: "nn-note" }, `${NN.peak(item)}${item.body.reason ? `; ended: ${item.body.reason}` : ""}`),
          h("p", {}, h("a", { href: NN.link(["item", item.key]) }, "All about it, and comments")),
        ),
        decide.length ? h("div", { class: "nn-decide" }, decide) : null,
      );
    }

    /** A bar of the picture was picked. */
    pick(kind, number) {
      const key = this.keys_.get(`${kind} ${number}`);
      if (this.items.some((each) => each.key === key)) this.mark(key);
      else this.picture.mark(kind, number);
      this.viewed();
    }

    mark(key, stay) {
      this.marked = key;
      const item = this.items.find((each) => each.key === key);
      if (this.picture && item && (item.kind === "alarm" || item.kind === "change")) {
        this.picture.mark(item.kind, this.numbers.get(key), stay);
        const top = this.picture.frame.getBoundingClientRect().top;
        if (!stay && (top < -40 || top > innerHeight * 0.6)) this.picture.frame.scrollIntoView({ block: "start" });
      }
      this.point(true);
    }

    point(unfold) {
      for (const entry of this.list.children) {
        const is = entry.dataset.item === this.marked;
        entry.classList.toggle("nn-marked", is);
        const link = entry.querySelector(".nn-entry-link");
        if (is) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
        const more = entry.querySelector("details");
        if (is && more && unfold) more.open = true;
      }
    }

    /* ---------------------------------------------------------------- models */

    async readModels() {
      let models = [];
      try {
        const found = await NN.api.get(`/streams/${this.id}/models`);
        models = found.items;
      } catch {
        return;
      }
      if (this.gone) return;
      const may = NN.mayDecide();
      const act = (text, run, kind = "") => h("button", { type: "button", class: `nn-button ${kind}`, onclick: run }, text);
      const reasons = { history: "its first history", uploaded: "an uploaded history", request: "a request", schedule: "the schedule", channels: "other channels", put: "a model from elsewhere" };
      const present = this.stream.generation;
      const rows = models.map((model) =>
        h(
          "li",
          {},
          h("span", {}, h("b", {}, `Model ${model.generation}`), model.generation === present ? h("span", { class: "nn-chip nn-chip-accepted" }, "in use") : null),
          h(
            "span",
            { class: "nn-facts" },
            model.fitted && model.last >= model.first ? ["fitted ", NN.time(NN.seconds(model.fitted)), " "] : null,
            model.last >= model.first ? `from ${NN.plural(model.last - model.first + 1, "sample")}` : "",
            model.reason ? `${model.last >= model.first ? ", because of" : "of"} ${reasons[model.reason] || model.reason}` : "",
          ),
          may && model.generation !== present && act("Use this one again", () => this.restore(model.generation)),
        ),
      );
      this.models.replaceChildren(
        h(
          "section",
          { class: "nn-list nn-models", "aria-label": "Model" },
          h("h2", {}, "Model"),
          rows.length ? h("ol", {}, rows) : h("p", { class: "nn-none" }, "No model yet."),
          may &&
            h(
              "div",
              { class: "nn-decide" },
              act(this.stream.state === "live" ? "Fit anew" : "Fit now", () => this.refit()),
              this.stream.state === "live" && act("Undo the newest acceptance", () => NN.undo(this.id, this.stream.name).then((done) => done && this.renew(true))),
              act("Mute alerts", () => NN.mute(this.stream.name)),
              act("Remove the stream", () => this.remove(), "nn-danger-text"),
            ),
        ),
      );
    }

    async act(ask, run, said) {
      const given = await NN.ask(ask);
      if (!given) return;
      try {
        await run(given);
        NN.say(said, "good");
        this.renew(true);
      } catch (error) {
        NN.complain(error);
      }
    }

    refit() {
      const { name } = this.stream;
      return this.act(
        { title: `Fit a new model of ${name}?`, text: "It learns what is normal from the newest samples. The present model judges until the new one is there, and is kept.", yes: "Fit" },
        () => NN.api.post(`/streams/${this.id}/refit`),
        `A new model of ${name} is being fitted.`,
      );
    }

    restore(generation) {
      return this.act(
        { title: `Use model ${generation} again?`, text: "What was learned and accepted since then is no longer used. The present model is kept.", yes: `Use model ${generation}`, kind: "danger" },
        () => NN.api.post(`/streams/${this.id}/models/${generation}/restore`),
        `Model ${generation} is used again.`,
      );
    }

    async remove() {
      const { name, samples } = this.stream;
      const given = await NN.ask({
        title: `Remove ${name}?`,
        text: [`Its ${NN.plural(samples, "sample")}, models, alarms and changes are deleted for good. If samples of this name come again, it begins anew.`],
        yes: "Remove for good",
        kind: "danger",
      });
      if (!given) return;
      this.gone = true; // nothing more is asked of it while it is removed
      clearTimeout(this.waiting);
      try {
        await NN.api.remove(`/streams/${this.id}`);
        NN.say(`${name} is removed.`, "good");
        location.hash = "#/";
      } catch (error) {
        this.gone = false;
        NN.complain(error);
      }
    }

    /* ---------------------------------------------------------------- as it happens */

    /** Samples came: read them, and once more if others came meanwhile or while nobody saw the page. */
    async tick(streams) {
      if (streams[this.id] === undefined) return;
      this.behind = true;
      if (this.ticking) return;
      this.ticking = true;
      try {
        while (this.behind && !document.hidden && !this.gone) {
          this.behind = false;
          await this.grow();
        }
      } catch {
        // the banner says that the service is gone
      } finally {
        this.ticking = false;
      }
    }

    async grow() {
      await this.read();
      if (!this.picture) {
        if (this.stream.samples) await this.draw();
      } else if (this.stream.newest !== null && (await this.provider.grow(this.stream.newest))) {
        this.picture.grow(this.provider.full[1]);
        this.viewed(true);
      }
    }

    happened(event) {
      if (event.stream !== this.id || this.gone) return;
      if (event.kind === "removed") {
        NN.say(`${this.stream ? this.stream.name : "The stream"} was removed.`);
        location.hash = "#/";
        return;
      }
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.renew(event.kind === "stream"), 250);
    }

    /** Read everything again; the picture stays where it is. */
    async renew(all) {
      if (this.gone) return;
      try {
        await Promise.all([this.read(), this.readItems()]);
        if (this.gone) return;
        if (all) this.readModels();
        const { stream: data } = await NN.api.get(`/streams/${this.id}/picture`);
        if (this.gone) return;
        if (!this.picture || shape(data) !== this.shape) return void (await this.draw());
        this.number(data);
        await this.provider.grow(data.end);
        const { blocks, channels } = this.picture.stream;
        this.picture.update({ ...data, end: this.provider.full[1], blocks, channels });
        this.viewed(true);
      } catch {
        // the banner says that the service is gone
      }
    }

    keys(event) {
      if (event.key === "l" && this.picture) this.picture.follow();
      else return Boolean(this.picture && NN.press(this.picture, event));
      return true;
    }

    recolour() {
      if (this.picture) this.picture.recolour();
    }

    takes(place) {
      if (place.parts[0] !== "stream" || Number(place.parts[1]) !== this.id) return false;
      if (place.query.item && place.query.item !== this.marked) this.mark(place.query.item);
      return true;
    }

    leave() {
      this.gone = true;
      clearInterval(this.clock);
      clearTimeout(this.waiting);
      clearTimeout(this.remembering);
      this.ends.forEach((end) => end());
      this.drop();
    }
  }

  /** What makes a picture another one, so that it must be built anew. */
  const shape = (data) =>
    JSON.stringify([data.channels.map((each) => each.name).sort(), data.alarms.length > 0, data.changes.length > 0, data.alarms.length + data.changes.length > 1]);

  const LENGTHS = [
    ["1 hour", HOUR],
    ["8 hours", 8 * HOUR],
    ["1 day", 24 * HOUR],
    ["7 days", 168 * HOUR],
  ];

  /** Ask for how long alerts of a stream are not sent. */
  NN.mute = async function (name) {
    const choice = h("select", { "aria-label": "For how long" }, LENGTHS.map(([text, span]) => h("option", { value: span }, text)));
    const given = await NN.ask({
      title: `Mute alerts of ${name}?`,
      text: ["A maintenance window: alarms still appear here; alerts wait for its end, and are sent if they are open still.", h("span", {}, "For ", choice)],
      yes: "Mute",
      comment: true,
    });
    if (!given) return;
    const now = Date.now() / 1000;
    try {
      // In a pattern, these characters have a meaning of their own.
      const pattern = name.replace(/[[*?]/g, (sign) => `[${sign}]`);
      await NN.api.post("/maintenance", { begin: now, end: now + Number(choice.value), streams: pattern, reason: given.comment || "muted on the page" });
      NN.say(`Alerts of ${name} are muted until ${NN.moment(now + Number(choice.value))}.`, "good", ["Show windows", "#/health"]);
    } catch (error) {
      NN.complain(error);
    }
  };

  NN.view(/^\/stream\/\d+$/, (place) => new StreamView(Number(place.parts[1]), place.query));

  NN.view(/^\/named\/.+/, (place) => {
    const name = place.path.slice("/named/".length);
    NN.api.get(`/streams/by-name/${name.split("/").map(encodeURIComponent).join("/")}`).then(
      (stream) => location.replace(NN.link(["stream", stream.id])),
      (error) => NN.complain(error),
    );
    return { element: h("h1", {}, NN.name(name)), title: name };
  });
})();
