/* The inbox: what waits for a person, with its evidence, and what was decided. */
(function () {
  "use strict";
  const h = NN.h;
  const PAGE = 50;
  const WIDE = 1000; // pixels from which list and item are side by side

  const SHOWN = [
    ["open", "waiting"],
    ["all", "all, also what is over"],
  ];
  const KINDS = [
    ["", "any kind"],
    ["alarm", "alarms"],
    ["change", "changes"],
    ["incident", "incidents"],
    ["silence", "silences"],
    ["channels", "other channels"],
  ];
  const RANK = { incident: 0, alarm: 1, change: 2, channels: 3, silence: 4 };

  /** What matters most first, and the alarms of an incident below it. */
  function grouped(items) {
    const sorted = [...items].sort((a, b) => RANK[a.kind] - RANK[b.kind] || b.opened - a.opened);
    const placed = new Set();
    const found = [];
    for (const item of sorted) {
      if (placed.has(item.key)) continue;
      item.member = false;
      found.push(item);
      if (item.kind !== "incident") continue;
      const streams = item.body.streams || {};
      for (const each of sorted) {
        if (each.kind !== "alarm" || placed.has(each.key) || streams[each.name] !== each.number) continue;
        each.member = true;
        placed.add(each.key);
        found.push(each);
      }
    }
    return found;
  }

  class Inbox {
    constructor(place) {
      this.query = { show: place.query.show || "open", kind: place.query.kind || "", stream: place.query.stream || "" };
      this.items = [];
      this.cursor = null;
      this.detail = null;
      this.picked = place.query.item || null;
      this.build();
      this.ends = [
        NN.api.on("event", (event) => this.happened(event)),
        NN.api.on("resync", () => this.read()),
      ];
      this.element.addEventListener("focusin", (event) => {
        const entry = event.target.closest("[data-item]");
        if (entry && this.wide()) this.pick(entry.dataset.item);
      });
      this.ready = this.read();
    }

    wide() {
      return innerWidth >= WIDE;
    }

    build() {
      const select = (name, label, options) =>
        h(
          "select",
          { "aria-label": label, onchange: (event) => this.ask({ [name]: event.target.value }) },
          options.map(([value, text]) => h("option", { value, selected: value === this.query[name] }, text)),
        );
      this.head = h("h1", { tabindex: "-1" }, "Inbox");
      this.note = h("p", { class: "nn-counts" });
      this.list = h("ol", { class: "nn-inbox-list", "aria-label": "Items" });
      this.more = h("button", { type: "button", class: "nn-more", hidden: true, onclick: () => this.read(true) }, "Show older ones");
      this.none = h("p", { class: "nn-none", hidden: true });
      this.pane = h("section", { class: "nn-inbox-pane", "aria-label": "The item that is picked" });
      this.element = h(
        "div",
        {},
        h("div", { class: "nn-headline" }, this.head, this.note),
        h(
          "div",
          { class: "nn-filters nn-inbox-filters" },
          select("show", "Which items", SHOWN),
          select("kind", "Kind", KINDS),
          this.query.stream &&
            h("button", { type: "button", class: "nn-button", onclick: () => (location.hash = "#/inbox") }, "Of one stream × show all"),
        ),
        h("div", { class: "nn-inbox" }, h("div", { class: "nn-inbox-side" }, this.list, this.more, this.none), this.pane),
      );
      this.title = "Inbox";
    }

    ask(what) {
      Object.assign(this.query, what);
      this.picked = null;
      this.remember();
      this.read();
    }

    remember() {
      const { show, kind, stream } = this.query;
      NN.remember({ show: show === "open" ? "" : show, kind, stream, item: this.picked || "" });
    }

    async read(more) {
      const { show, kind, stream } = this.query;
      const turn = (this.turn = (this.turn || 0) + 1);
      try {
        const found = await NN.api.get("/items", {
          kind,
          stream,
          open: show === "open" ? true : null,
          cursor: more ? this.cursor : null,
          limit: more ? PAGE : Math.max(PAGE, Math.min(500, this.items.length)),
        });
        const items = await NN.nameItems(found.items.map(NN.itemOf));
        if (turn !== this.turn || this.gone) return;
        this.cursor = found.cursor || null;
        this.items = more ? this.items.concat(items) : items;
        this.draw();
      } catch (error) {
        NN.complain(error);
      }
    }

    draw() {
      const open = this.query.show === "open";
      // What waits is in the order of what matters; history is in the order of time.
      const items = open ? grouped(this.items) : this.items;
      this.order = items;
      const waiting = items.filter(NN.isOpen);
      const undecided = waiting.filter((item) => item.state !== "rejected").length;
      const some = this.cursor ? "At least " : "";
      // Of history only a part is read: how much waits is not known from it.
      this.head.replaceChildren(
        !open ? "What happened, newest first" : NN.badge(
          waiting.some((item) => item.kind === "alarm" || item.kind === "incident") ? "alarm" : waiting.length ? "change" : "live",
          waiting.length ? `${some}${NN.plural(undecided, "item")} ${undecided === 1 ? "waits" : "wait"} for you` : "Nothing waits for you",
        ),
      );
      const counts = KINDS.slice(1)
        .map(([kind, text]) => [waiting.filter((item) => item.kind === kind).length, text])
        .filter(([n]) => n);
      this.note.textContent = !open ? "" : counts.map(([n, text]) => `${n} ${n === 1 ? text.replace(/s$/, "") : text}`).join(" · ");
      this.none.hidden = items.length > 0;
      this.none.textContent = open
        ? "No open alarm, change or incident. New ones appear here by themselves."
        : "Nothing of this kind has happened so far.";
      this.more.hidden = !this.cursor;
      const before = new Map([...this.list.children].map((each) => [each.dataset.item, each]));
      const focused = document.activeElement && document.activeElement.closest("[data-item]");
      const keep = focused && focused.dataset.item;
      this.list.replaceChildren(
        ...items.map((item) => {
          const stamp = `${item.member}|${item.state}|${item.updated}|${item.sentence}`;
          const there = before.get(item.key);
          return there && there.dataset.stamp === stamp ? there : this.entry(item, stamp);
        }),
      );
      if (keep) this.list.querySelector(`[data-item="${CSS.escape(keep)}"] a`)?.focus({ preventScroll: true });
      if (!this.wide()) return;
      const still = this.picked && (items.some((item) => item.key === this.picked) || this.detail);
      if (!still && items.length) this.pick(items[0].key, true);
      else if (this.picked && !this.detail) {
        this.pick(this.picked, true);
        this.list.querySelector(".nn-picked")?.scrollIntoView({ block: "nearest" });
      }
      else this.mark();
      if (!items.length && !this.picked) this.pane.replaceChildren();
    }

    entry(item, stamp) {
      const status = { alarm: "alarm", incident: "alarm", silence: "silence" }[item.kind] || "change";
      return h(
        "li",
        { class: `nn-inbox-entry nn-of-${item.kind} ${item.member ? "nn-member" : ""}`, "data-item": item.key, "data-stamp": stamp },
        h(
          "a",
          {
            href: NN.link(["item", item.key]),
            onclick: (event) => {
              if (!this.wide() || event.ctrlKey || event.metaKey) return;
              event.preventDefault();
              this.pick(item.key);
            },
          },
          h(
            "span",
            { class: "nn-entry-top" },
            NN.badge(NN.isOpen(item) ? status : "live", NN.kindText(item.kind)),
            h("strong", {}, NN.name(item.name)),
            NN.isOpen(item) && item.state === "open" ? null : NN.chip(item),
          ),
          h("span", { class: "nn-sentence" }, item.sentence),
          h("span", { class: "nn-facts" }, NN.duration(item), item.kind === "alarm" && item.ratio > 0 ? ` · ${NN.peak(item)}` : ""),
        ),
      );
    }

    /** Show an item beside the list. */
    pick(key, quiet) {
      if (this.picked === key && this.detail) return;
      this.picked = key;
      if (this.detail) this.detail.leave();
      this.detail = new NN.ItemDetail(key, 2, () => this.read());
      this.pane.replaceChildren(this.detail.element);
      this.mark();
      if (!quiet) this.remember();
    }

    mark() {
      for (const each of this.list.children) {
        const is = each.dataset.item === this.picked;
        each.classList.toggle("nn-picked", is);
        const link = each.querySelector("a");
        if (is) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }

    happened(event) {
      if (this.detail && event.item === this.picked) this.detail.read();
      if (event.kind === "comment" || event.kind === "stream") return;
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.read(), 300);
    }

    step(by) {
      const { order = [] } = this;
      const active = document.activeElement && document.activeElement.closest("[data-item]");
      const now = this.wide() ? this.picked : active && active.dataset.item;
      const at = order.findIndex((item) => item.key === now);
      const next = order[at < 0 ? 0 : Math.min(order.length - 1, Math.max(0, at + by))];
      if (!next) return;
      const entry = this.list.querySelector(`[data-item="${CSS.escape(next.key)}"]`);
      entry.querySelector("a").focus({ preventScroll: true });
      entry.scrollIntoView({ block: "nearest" });
      if (this.wide()) this.pick(next.key);
    }

    keys(event) {
      const verb = { a: "accept", r: "reject" }[event.key];
      if (event.key === "j" || event.key === "ArrowDown") this.step(1);
      else if (event.key === "k" || event.key === "ArrowUp") this.step(-1);
      else if (verb) {
        const active = document.activeElement && document.activeElement.closest("[data-item]");
        const key = this.wide() ? this.picked : active && active.dataset.item;
        const item = (this.order || []).find((each) => each.key === key);
        if (!item || !NN.verbs(item).includes(verb) || !NN.mayDecide()) return false;
        NN.decide(item, verb).then((found) => found && (this.read(), this.detail && this.detail.read()));
      } else if (event.key === "c" && this.detail) this.detail.element.querySelector(".nn-write textarea")?.focus();
      else if (event.key === "Enter" && this.picked && event.target.tagName !== "BUTTON" && event.target.tagName !== "A") location.hash = NN.link(["item", this.picked]);
      else if (event.key === "s" && this.detail && this.detail.item && this.detail.item.stream) location.hash = this.detail.streamLink(this.detail.item);
      else return false;
      return true;
    }

    takes(place) {
      if (place.path !== "/inbox") return false;
      const { show = "open", kind = "", stream = "" } = place.query;
      return show === this.query.show && kind === this.query.kind && stream === this.query.stream;
    }

    leave() {
      this.gone = true;
      clearTimeout(this.waiting);
      if (this.detail) this.detail.leave();
      this.ends.forEach((end) => end());
    }
  }

  NN.view(/^\/inbox$/, (place) => new Inbox(place));
})();
