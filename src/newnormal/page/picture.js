/* The picture of one stream: alarms, changes and labels above, ratio and channels below, one time axis. */
(function () {
  "use strict";
  const h = NN.h;

  const MANY = 8; // channels beyond this are shown only where they are concerned
  const FEW = 4; // shown where none is
  const PAPER = 680; // pixels across a page of A4 or letter paper between its margins
  const LEGEND = [
    ["value", "value"],
    ["expected", "expected"],
    ["range", "expected range"],
    ["alarm", "beyond its range"],
    ["pending", "change pending"],
  ];
  let pictures = 0;

  /**
   * Draw a stream into an element.
   *
   * `stream` is its description as in the report, `provider` gives the points (see `Embedded`),
   * `axis` is the report's. `options`: `onmark(kind, number)`, called when a bar is picked;
   * `onview(x0, x1, all)`, called when the range has changed.
   */
  NN.Picture = class {
    constructor(root, stream, provider, axis, options = {}) {
      Object.assign(this, { root, stream, provider, options, marked: null, flagged: null, all: false });
      this.clock = NN.clock(axis);
      this.key = `picture-${++pictures}`;
      this.events = NN.events(stream);
      this.full = full(stream);
      this.view = [...this.full];
      this.build();
      this.measure();
      this.ratio = new NN.RatioPanel(this);
      this.panels = stream.channels.map((_, k) => new NN.ChannelPanel(this, k));
      this.measure();
      this.near = new IntersectionObserver((seen) => this.approach(seen), { rootMargin: "300px 0px" });
      this.arrange();
      this.sized = new ResizeObserver(() => this.resize());
      this.sized.observe(this.frame);
      provider.onmore = () => this.refresh();
      this.refresh();
    }

    destroy() {
      this.gone = true;
      this.sized.disconnect();
      this.near.disconnect();
      this.provider.onmore = () => {};
      [this.ratio, ...this.panels].forEach((panel) => panel.close());
      if (this.axis) this.axis.destroy();
      this.root.replaceChildren();
    }

    /* ---------------------------------------------------------------- elements */

    build() {
      const button = (text, label, act, name) =>
        h(
          "button",
          {
            type: "button",
            class: `nn-button ${name || ""}`,
            "aria-label": label,
            title: label,
            onclick: act,
          },
          text,
        );
      const { alarms, changes, labels } = this.events;
      this.where = h("span", { class: "nn-where" });
      this.note = h("span", { class: "nn-note" });
      const steps = alarms.length + changes.length > 1;
      const buttons = h(
        "div",
        { class: "nn-buttons", role: "toolbar", "aria-label": "Range" },
        steps && button("‹", "Previous alarm (p)", () => this.step(-1), "nn-previous"),
        steps && button("›", "Next alarm (n)", () => this.step(1), "nn-next"),
        button("−", "Zoom out (−)", () => this.zoom(2)),
        button("+", "Zoom in (+)", () => this.zoom(0.5)),
        button("All", "Show all (0)", () => this.showAll(), "nn-all"),
      );
      const used = LEGEND.filter(
        ([kind]) =>
          (kind !== "alarm" || alarms.length) &&
          (kind !== "pending" || changes.length) &&
          (kind !== "expected" || this.has("expected")) &&
          (kind !== "range" || this.has("least", "below")),
      );
      if (labels.length) used.push(["label", "labelled as a fault"]);
      const legend = h(
        "ul",
        { class: "nn-legend", "aria-label": "Legend" },
        used.map(([kind, text]) => h("li", { class: `nn-key-${kind}` }, kind === "alarm" && !this.has("ratio") ? "in alarm" : text)),
      );
      this.map = new NN.Map(this);
      const pick = (spans) => this.pick(spans);
      this.lanes = [
        ["Alarms", alarms],
        ["Changes", changes],
        ["Labels", labels],
      ]
        .filter(([, spans]) => spans.length)
        .map(([name, spans]) => new NN.Lane(name, spans, pick));
      this.ruler = h("div", { class: "nn-ruler", "aria-hidden": "true" });
      this.time = h("div", { class: "nn-flag", hidden: true });
      this.hint = h("div", { class: "nn-hint", hidden: true }, "Ctrl + wheel zooms, drag selects a range");
      this.head = h(
        "div",
        { class: "nn-head" },
        this.map.element,
        this.ruler,
        this.lanes.map((lane) => lane.element),
        this.time,
      );
      this.list = h("div", { class: "nn-panels" });
      const left = (stream) => (stream.more && stream.more.channels) || 0;
      this.rest = h(
        "p",
        { class: "nn-note", hidden: !left(this.stream) },
        `${NN.plural(left(this.stream), "more channel")} not in this file, which would be too large with them.`,
      );
      this.more = h("button", {
        type: "button",
        class: "nn-more",
        hidden: true,
        onclick: () => this.unfold(),
      });
      this.words = "";
      this.find = h("input", {
        type: "search",
        class: "nn-search nn-find",
        placeholder: "Find a channel",
        "aria-label": "Find a channel",
        hidden: this.stream.channels.length <= MANY,
        oninput: (event) => this.filter(event.target.value.trim().toLowerCase()),
      });
      this.spoken = h("p", { class: "nn-spoken", role: "status" });
      this.frame = h(
        "div",
        {
          class: "nn-picture",
          role: "group",
          "aria-label": `Picture of ${this.stream.name || "the stream"}`,
        },
        h("div", { class: "nn-top" }, h("div", { class: "nn-range-line" }, this.where, this.note), buttons),
        legend,
        this.head,
        this.find,
        this.list,
        this.more,
        this.rest,
        this.hint,
        this.spoken,
      );
      this.root.replaceChildren(this.frame);
      NN.gestures(this);
    }

    /** Whether channels have a column of one of these kinds. */
    has(...kinds) {
      return (this.stream.blocks || []).some(({ columns }) => kinds.some((kind) => `${kind}:0` in columns));
    }

    measure() {
      this.width = Math.max(240, this.frame.clientWidth);
      this.narrow = this.width < 560;
      this.gutter = this.narrow ? 52 : 64;
      this.right = this.narrow ? 4 : 10;
      this.space = this.narrow ? 70 : 90;
      this.font = `${this.narrow ? 11 : 12}px system-ui, sans-serif`;
      this.colours = NN.colours(this.frame);
      this.frame.style.setProperty("--gutter", `${this.gutter}px`);
      this.frame.style.setProperty("--right", `${this.right}px`);
      // Panels have their height before they are drawn: nothing moves when they are.
      for (const panel of this.panels || []) panel.plot.style.minHeight = `${panel.height}px`;
    }

    /** Pixels between the first and the last x that are seen. */
    get pixels() {
      return this.width - this.gutter - this.right;
    }

    /** Put the panels that are to be seen in order: those of what is marked, those concerned, the others. */
    arrange() {
      const { channels } = this.stream;
      const shares = this.marked ? NN.channelsOf(this.marked) : {};
      const names = Object.keys(shares);
      const order = channels.map((_, k) => k);
      const mine = order
        .filter((k) => names.includes(channels[k].name))
        .sort((a, b) => names.indexOf(channels[a].name) - names.indexOf(channels[b].name));
      const rest = order.filter((k) => !mine.includes(k));
      const concerned = rest.filter((k) => channels[k].concern > 0);
      const shown =
        this.all || channels.length <= MANY
          ? rest
          : concerned.length
            ? concerned.slice(0, Math.max(0, MANY - mine.length))
            : rest.slice(0, mine.length ? 0 : FEW);
      const named = (k) => channels[k].name.toLowerCase().includes(this.words);
      const chosen = this.words ? [...mine, ...rest].filter(named) : [...mine, ...shown];
      this.panels.forEach((panel, k) => {
        const share = shares[channels[k].name];
        const of = this.marked && mine.includes(k) ? `${this.marked.kind} ${this.marked.number}` : "";
        panel.badge(of && (share ? `${of} · ${Math.round(100 * share)} %` : of));
        if (!chosen.includes(k)) {
          this.near.unobserve(panel.element);
          panel.close();
        }
      });
      const before = [...this.list.children];
      const after = [this.ratio, ...chosen.map((k) => this.panels[k])].map((panel) => panel.element);
      if (before.length !== after.length || before.some((element, k) => element !== after[k]))
        this.list.replaceChildren(...after);
      after.forEach((element) => this.near.observe(element));
      this.more.hidden =
        this.words !== "" || channels.length <= MANY || (!this.all && chosen.length === channels.length);
      this.more.textContent = this.all
        ? "Show only the channels concerned"
        : `Show all ${channels.length} channels`;
      this.more.setAttribute("aria-expanded", String(this.all));
    }

    /** Show the channels whose names have these words. */
    filter(words) {
      this.words = words;
      this.arrange();
      this.refresh();
    }

    unfold() {
      this.all = !this.all;
      this.arrange();
      this.refresh();
    }

    /** Draw all panels at the width of a page of paper, at once; or as before. */
    print(paper) {
      this.printing = paper;
      this.frame.style.width = paper ? `${PAPER}px` : "";
      this.recolour();
      if (!paper) return;
      for (const element of this.list.children) element.panel.open();
      this.draw();
    }

    /** Make canvases for panels near the part of the page that is seen, and drop those far away. */
    approach(seen) {
      if (this.printing) return;
      for (const { target, isIntersecting } of seen) {
        if (isIntersecting) target.panel.open();
        else if (target.panel.u) {
          target.panel.plot.style.height = `${target.panel.height}px`;
          target.panel.close();
        }
      }
      this.refresh();
    }

    /* ---------------------------------------------------------------- drawing */

    refresh() {
      if (this.waiting || this.gone) return;
      this.waiting = requestAnimationFrame(() => {
        this.waiting = 0;
        if (!this.gone) this.draw();
      });
    }

    draw() {
      const channels = this.panels.filter((panel) => panel.u).map((panel) => panel.position);
      const [x0, x1] = this.view;
      const found = this.provider.points(x0, x1, this.pixels, channels);
      this.drawEvents();
      if (found && found.then) {
        const asked = (this.asked = (this.asked || 0) + 1);
        found.then((points) => asked === this.asked && !this.gone && this.paint(points));
      } else this.paint(found);
    }

    paint(found) {
      this.found = found;
      if (!this.overview && found.x.length) {
        this.overview = this.whole() ? found : this.provider.points(...this.full, this.pixels, []);
        if (this.overview.then) this.overview = found;
        this.ratio.decide(this.overview);
        this.ratio.close();
        this.ratio.open();
        this.map.draw();
      }
      for (const panel of [this.ratio, ...this.panels]) {
        if (!panel.u || !found.x.length) continue;
        panel.show(found);
        if (panel.describe) panel.plot.setAttribute("aria-label", panel.describe(this.clock, this.view));
      }
      const per =
        found.per > 1
          ? `1 point = ${NN.count(found.per)} samples, extremes kept${found.exact ? "; every sample around alarms" : ""}`
          : "every sample";
      this.note.textContent = found.x.length ? per : "reading the samples …";
      this.frame.dataset.points = found.x.length;
      this.frame.dataset.per = found.per;
    }

    drawEvents() {
      if (!this.axis) this.axis = new uPlot(this.axisOptions(), [this.view, [null, null]], this.ruler);
      else this.axis.setScale("x", { min: this.view[0], max: this.view[1] });
      const zone = this.clock.zone ? ` ${this.clock.zone}` : "";
      this.where.textContent = this.clock.span(...this.view) + zone;
      this.lanes.forEach((lane) => lane.draw(...this.view, this.pixels, this.marked));
      this.map.place();
    }

    axisOptions() {
      const none = { show: false };
      const wide = this.clock.time ? 34 : 26; // half of the widest label: none is cut off at an edge
      const inside = (x) =>
        (this.pixels * (this.view[1] - x)) / (this.view[1] - this.view[0]) > wide - this.right;
      const labels = (u, splits, axis, space, step) =>
        this.clock.labels(
          splits.map((x) => (inside(x) ? x : null)),
          step,
        );
      return {
        width: this.width,
        height: this.clock.time ? 38 : 24,
        padding: [0, this.right, 0, this.gutter],
        legend: none,
        cursor: none,
        tzDate: this.clock.date,
        scales: { x: { time: this.clock.time, auto: false, range: () => this.view }, y: { range: [0, 1] } },
        axes: [
          {
            side: 2,
            size: this.clock.time ? 36 : 22,
            gap: 2,
            space: this.space,
            stroke: this.colours.muted,
            font: this.font,
            grid: none,
            ticks: { size: 4, stroke: this.colours.grid },
            values: labels,
          },
          none,
        ],
        series: [{}, { show: false }],
      };
    }

    resize() {
      if (!this.printing && this.frame.clientWidth && Math.max(240, this.frame.clientWidth) !== this.width) this.recolour();
    }

    /** Make everything again: for another width or another theme. */
    recolour() {
      this.measure();
      if (this.axis) this.axis.destroy();
      this.axis = null;
      [this.ratio, ...this.panels].forEach((panel) => panel.resize());
      this.map.draw();
      this.refresh();
    }

    /* ---------------------------------------------------------------- the cursor */

    cursor(panel) {
      const first = (handler) => (event) => (event.button === 0 && !event.shiftKey ? handler(event) : null);
      const colour = this.colours.ink;
      return {
        sync: { key: this.key, setSeries: false, scales: ["x", null] },
        y: false,
        drag: { x: true, y: false, setScale: false, dist: 5 },
        points: {
          size: 6,
          width: 0,
          fill: colour,
          stroke: colour,
          show: (u, k) => (panel.data && k > u.series.length - 3 ? undefined : false),
        },
        bind: { mousedown: (u, target, handler) => first(handler), dblclick: () => () => this.showAll() },
      };
    }

    /** Show the time at the cursor. */
    flag(u, x, panel) {
      this.flagged = x === null ? null : panel;
      this.time.hidden = x === null;
      if (x === null) return;
      const inside = this.events.alarms
        .filter((span) => span.start <= x && x <= span.end)
        .map((span) => ` · alarm ${span.number}`);
      this.time.textContent = this.clock.text(x) + inside.slice(0, 3).join("");
      const half = this.time.offsetWidth / 2;
      const left = this.gutter + ((x - this.view[0]) / (this.view[1] - this.view[0])) * this.pixels;
      this.time.style.left = `${Math.min(this.width - half - 2, Math.max(half + 2, left))}px`;
    }

    /** Show the values at a place, as if the mouse were there. */
    point(x) {
      const left = ((x - this.view[0]) / (this.view[1] - this.view[0])) * this.pixels;
      for (const panel of [this.ratio, ...this.panels])
        if (panel.u) panel.u.setCursor({ left, top: 10 }, true, false);
    }

    selected(u) {
      const { left, width } = u.select;
      if (width < 5) return;
      u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      this.show(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
    }

    /* ---------------------------------------------------------------- the range */

    /** Show a range, kept inside the stream. */
    show(x0, x1, quiet) {
      const [start, end] = this.full;
      const span = Math.min(end - start, Math.max(x1 - x0, this.shortest()));
      const middle = (x0 + x1) / 2;
      const from = Math.min(Math.max(start, middle - span / 2), end - span);
      this.view = [from, from + span];
      this.refresh();
      if (!quiet && this.options.onview) this.options.onview(...this.view, this.whole());
    }

    showAll() {
      this.show(...this.full);
    }

    whole() {
      return this.view[0] <= this.full[0] && this.view[1] >= this.full[1];
    }

    shortest() {
      return Math.min(1, 10 / Math.max(1, this.stream.samples)) * (this.full[1] - this.full[0]);
    }

    zoom(factor, at = 0.5) {
      const [x0, x1] = this.view;
      const span = Math.max((x1 - x0) * factor, this.shortest());
      const from = x0 + at * (x1 - x0) - at * span;
      this.show(from, from + span);
    }

    pan(part) {
      const by = part * (this.view[1] - this.view[0]);
      this.show(this.view[0] + by, this.view[1] + by);
    }

    /* ---------------------------------------------------------------- what happened */

    is(span) {
      return this.marked !== null && this.marked.kind === span.kind && this.marked.number === span.number;
    }

    /** A bar was picked: mark what it stands for, or look closer where it stands for several. */
    pick(spans) {
      if (spans.length === 1)
        return this.options.onmark
          ? this.options.onmark(spans[0].kind, spans[0].number)
          : this.mark(spans[0].kind, spans[0].number);
      const [start, end] = [Math.min(...spans.map((s) => s.start)), Math.max(...spans.map((s) => s.end))];
      const room = 0.15 * (end - start) || this.shortest();
      return this.show(start - room, end + room);
    }

    step(by) {
      const spans = [...this.events.alarms, ...this.events.changes].sort((a, b) => a.start - b.start);
      if (!spans.length) return;
      const at = this.marked ? spans.findIndex((span) => this.is(span)) : -1;
      const next =
        at < 0 ? (by > 0 ? 0 : spans.length - 1) : Math.min(spans.length - 1, Math.max(0, at + by));
      this.pick([spans[next]]);
    }

    /** Mark an alarm or a change (null: nothing), and go to it unless `stay`. Returns whether it is there. */
    mark(kind, number, stay) {
      const spans = kind === "change" ? this.events.changes : this.events.alarms;
      this.marked = (kind && spans.find((span) => span.number === number)) || null;
      this.arrange();
      if (this.marked && !stay) {
        const { start, end } = this.marked;
        const room = Math.max(0.75 * (end - start), 6 * this.shortest());
        this.show(start - room, end + room, true);
        this.spoken.textContent = `${kind} ${number}: ${this.marked.of.sentence}`;
      }
      this.refresh();
      return this.marked !== null;
    }

    /** Take a newer description of the stream, as of a live one; the range follows the newest sample. */
    update(stream) {
      const following = this.view[1] >= this.full[1];
      const { marked } = this;
      this.stream = stream;
      this.events = NN.events(stream);
      const grown = full(stream);
      const by = grown[1] - this.full[1];
      const whole = this.whole();
      this.full = grown;
      if (whole) this.view = [...grown];
      else if (following) this.view = [this.view[0] + by, this.view[1] + by];
      const lanes = [
        ["Alarms", this.events.alarms],
        ["Changes", this.events.changes],
        ["Labels", this.events.labels],
      ];
      const made = lanes
        .filter(([, spans]) => spans.length)
        .map(([name, spans]) => new NN.Lane(name, spans, (picked) => this.pick(picked)));
      this.lanes.forEach((lane) => lane.element.remove());
      this.lanes = made;
      this.time.before(...made.map((lane) => lane.element));
      this.overview = null;
      this.mark(marked && marked.kind, marked && marked.number, true);
    }
  };

  function full(stream) {
    const { start, end } = stream;
    return end > start ? [start, end] : [start - 0.5, start + 0.5];
  }
})();
