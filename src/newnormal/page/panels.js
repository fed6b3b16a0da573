/* One panel of a picture: the ratio beside 1, or a channel in the range that was expected. */
(function () {
  "use strict";
  const h = NN.h;

  /** A colour (#rrggbb) that lets what is behind it through. */
  const alpha = (colour, part) =>
    colour +
    Math.round(255 * part)
      .toString(16)
      .padStart(2, "0");

  const NOTHING = [0, 1]; // the range of an axis without values

  class Panel {
    constructor(picture, title, attributes) {
      this.picture = picture;
      this.readout = h("span", { class: "nn-readout" });
      this.badges = h("span", { class: "nn-badges" });
      this.none = h("span", { class: "nn-note", hidden: true }, "no values");
      this.plot = h("div", { class: "nn-plot", role: "img", "aria-label": title });
      this.element = h(
        "section",
        { class: "nn-panel", "aria-label": title, ...attributes },
        h(
          "header",
          { class: "nn-panel-head" },
          h("h3", { class: "nn-name", title }, NN.name(title)),
          this.badges,
          this.none,
          this.readout,
        ),
        this.plot,
      );
      this.u = null;
      this.data = null;
      this.range = NOTHING;
      this.element.panel = this; // for the observer that draws panels when they are near
    }

    get height() {
      const few = this.picture.stream.channels.length;
      if (this.picture.narrow) return few > 2 ? 88 : 130;
      return few > 4 ? 104 : few > 2 ? 128 : few > 1 ? 170 : 240;
    }

    /** Make the canvas; called when the panel comes near the part of the page that is seen. */
    open() {
      if (this.u) return;
      this.u = new uPlot(this.options(), this.empty(), this.plot);
    }

    close() {
      if (!this.u) return;
      this.u.destroy();
      this.u = null;
    }

    options() {
      const { picture } = this;
      const colours = picture.colours;
      const axis = {
        stroke: colours.muted,
        font: picture.font,
        grid: { stroke: colours.grid, width: 1 },
        ticks: { show: false },
      };
      return {
        width: picture.width,
        height: this.height,
        padding: [6, picture.right, 6, 0],
        legend: { show: false },
        tzDate: picture.clock.date,
        cursor: picture.cursor(this),
        scales: {
          x: { time: picture.clock.time, auto: false, range: () => picture.view },
          y: { auto: false, range: () => this.range, ...this.scale() },
        },
        axes: [
          { ...axis, size: 0, space: picture.space, values: (u, splits) => splits.map(() => "") },
          {
            ...axis,
            size: picture.gutter,
            gap: 6,
            space: this.height > 150 ? 34 : 20,
            ...this.splits(),
            values: (u, splits) => this.labels(splits),
          },
        ],
        series: [{}, ...this.series(colours)],
        bands: this.bands(colours),
        hooks: {
          drawClear: [(u) => this.under(u)],
          draw: [(u) => this.over(u)],
          setSelect: [(u) => picture.selected(u)],
          setCursor: [(u) => this.hover(u)],
        },
      };
    }

    scale() {
      return {};
    }

    splits() {
      return {};
    }

    /** An axis of which nothing is known has no numbers. */
    labels(splits) {
      return this.range === NOTHING ? splits.map(() => "") : NN.ticks(splits);
    }

    empty() {
      return [[], ...this.series(this.picture.colours).map(() => [])];
    }

    show(found) {
      if (!this.u) return;
      this.take(found);
      this.u.batch(() => {
        this.u.setData(this.data, false);
        this.u.setScale("x", { min: this.picture.view[0], max: this.picture.view[1] });
        this.u.setScale("y", { min: this.range[0], max: this.range[1] });
      });
      this.hover(this.u);
    }

    resize() {
      if (!this.u) return;
      this.close(); // sizes of axes and text change with the width
      this.open();
    }

    /** Tint the time of alarms and changes behind the lines. */
    under(u) {
      const { ctx } = u;
      const { left, top, width, height } = u.bbox;
      const { view, colours } = this.picture;
      const tint = (start, end, colour, part, least = 2 * devicePixelRatio) => {
        if (end < view[0] || start > view[1]) return;
        const from = u.valToPos(Math.max(start, view[0]), "x", true);
        const to = u.valToPos(Math.min(end, view[1]), "x", true);
        const size = Math.max(to - from, least);
        ctx.fillStyle = alpha(colour, part);
        ctx.fillRect(Math.max(left, (from + to - size) / 2), top, size, height);
      };
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, width, height);
      ctx.clip();
      for (const span of this.picture.events.labels) {
        if (span.end < view[0] || span.start > view[1]) continue;
        const from = u.valToPos(span.start, "x", true);
        const to = Math.max(u.valToPos(span.end, "x", true), from + 2 * devicePixelRatio);
        ctx.fillStyle = colours.label;
        ctx.fillRect(from, top + height - 3 * devicePixelRatio, to - from, 3 * devicePixelRatio);
      }
      for (const span of this.picture.events.changes) {
        if (!this.concerned(span)) continue;
        span.of.steps.forEach(([x, state], k) => {
          const next = k + 1 < span.of.steps.length ? span.of.steps[k + 1][0] : span.end;
          tint(x, next, colours[state] || colours.muted, this.picture.is(span) ? 0.18 : 0.1);
        });
      }
      for (const span of this.picture.events.alarms) {
        const mine = this.concerned(span);
        tint(
          span.start,
          span.end,
          colours.alarm,
          this.picture.is(span) ? (mine ? 0.2 : 0.1) : mine ? 0.13 : 0.05,
        );
      }
      const marked = this.picture.marked;
      if (marked) {
        ctx.fillStyle = marked.kind === "alarm" ? colours.alarm : colours.pending;
        for (const x of [marked.start, marked.end]) {
          if (x < view[0] || x > view[1]) continue;
          ctx.fillRect(Math.round(u.valToPos(x, "x", true)), top, devicePixelRatio, height);
        }
      }
      ctx.restore();
    }

    /** Whether an alarm or change is about this panel. */
    concerned() {
      return true;
    }

    over() {}

    /** Draw with the clip of the plot's area. */
    inside(u, draw) {
      const { ctx } = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
      ctx.clip();
      draw(ctx);
      ctx.restore();
    }

    hover(u) {
      const at = u.cursor.idx;
      const there =
        at !== null && at !== undefined && u.cursor.left >= 0 && this.data && this.data[0].length > at;
      this.readout.replaceChildren(...(there ? this.read(at) : []));
      if (there || this.picture.flagged === this) this.picture.flag(u, there ? this.data[0][at] : null, this);
    }
  }

  /** How far each sample is, in units of the limit: from 1 on it is anomalous. */
  NN.RatioPanel = class extends Panel {
    constructor(picture) {
      super(picture, "Ratio to the limit", { class: "nn-panel nn-ratio" });
      this.log = null;
    }

    get height() {
      return this.picture.narrow ? 80 : 92;
    }

    scale() {
      return this.log ? { distr: 3, log: 10 } : {};
    }

    series(colours) {
      return [
        { stroke: colours.ink, width: 1, dash: [5, 4], points: { show: false }, spanGaps: false },
        { stroke: colours.line, width: 1.25, points: { show: false }, spanGaps: false },
      ];
    }

    bands() {
      return [];
    }

    /** Lines at powers of ten, not too many; between them where there is but one. */
    splits() {
      if (!this.log) return {};
      return {
        splits: (u, axis, low, high) => {
          const [from, to] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
          if (to <= from) {
            const near = high / low < 10 ? [1, 2, 5] : [1, 3];
            return [from - 1, from, from + 1]
              .flatMap((power) => near.map((part) => +`${part}e${power}`))
              .filter((value) => value >= low && value <= high);
          }
          const step = Math.max(1, Math.ceil((to - from + 1) / 4));
          const found = [];
          for (let power = from; power <= to; power += step) found.push(10 ** power);
          return found;
        },
        filter: (u, splits) => splits,
      };
    }

    labels(splits) {
      return this.log ? splits.map((v) => NN.number(v, 2)) : super.labels(splits);
    }

    concerned(span) {
      return span.kind === "alarm"; // a change is about channels
    }

    /** Whether it goes so high that only a logarithmic axis shows both it and 1. */
    decide(found) {
      this.log = found.columns.ratio.some((v) => v > 8);
    }

    take(found) {
      const { ratio } = (this.raw = found.columns);
      const known = ratio.filter((v) => v !== null && v < 1e30);
      this.none.hidden = known.length > 0;
      const top = known.reduce((most, v) => Math.max(most, v), 1);
      const least = known.reduce((low, v) => Math.min(low, v), 0.5);
      this.range = this.log ? [Math.max(0.01, least / 1.3), 1.6 * top] : [Math.min(0, least), 1.12 * top];
      if (!known.length) this.range = NOTHING;
      const [low, high] = this.log ? [this.range[0], 1e37] : [-Infinity, Infinity];
      const keep = (v) => (v === null ? null : Math.min(Math.max(v, low), high));
      this.data = [found.x, found.x.map(() => (known.length ? 1 : null)), ratio.map(keep)];
    }

    /** Colour what is above 1. */
    over(u) {
      const [x, , ratio] = u.data;
      const { alarm } = this.picture.colours;
      const limit = u.valToPos(1, "y", true);
      this.inside(u, (ctx) => {
        ctx.beginPath();
        ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, limit - u.bbox.top);
        ctx.clip();
        ctx.fillStyle = alpha(alarm, 0.35);
        ctx.strokeStyle = alarm;
        ctx.lineWidth = 1.75 * devicePixelRatio;
        for (const [i, j] of runs(x, (k) => ratio[k] !== null)) {
          const places = x.slice(i, j).map((v) => u.valToPos(v, "x", true));
          if (j - i === 1) [places[0], places[1]] = [places[0] - devicePixelRatio, places[0] + devicePixelRatio];
          ctx.beginPath();
          places.forEach((px, k) => ctx.lineTo(px, u.valToPos(ratio[Math.min(i + k, j - 1)], "y", true)));
          ctx.stroke();
          ctx.lineTo(places.at(-1), limit);
          ctx.lineTo(places[0], limit);
          ctx.fill();
        }
      });
    }

    read(at) {
      const ratio = this.raw.ratio[at];
      if (ratio === null || ratio === undefined) return ["not judged"];
      return [h("b", { class: ratio >= 1 ? "nn-bad" : "" }, NN.number(ratio, 3)), " × the limit"];
    }
  };

  /** A channel with what was expected of it. */
  NN.ChannelPanel = class extends Panel {
    constructor(picture, position) {
      const channel = picture.stream.channels[position];
      super(picture, channel.name, { "data-channel": position });
      this.position = position;
      this.name = channel.name;
    }

    concerned(span) {
      return this.name in NN.channelsOf(span);
    }

    series(colours) {
      const none = { stroke: "transparent", width: 0, points: { show: false }, spanGaps: false };
      return [
        none,
        none,
        { stroke: colours.expected, width: 1, dash: [4, 3], points: { show: false }, spanGaps: false },
        { stroke: colours.line, width: 1.25, points: { show: false }, spanGaps: false },
        { stroke: colours.line, width: 1.25, points: { show: false }, spanGaps: false },
      ];
    }

    bands(colours) {
      return [
        { series: [1, 2], fill: colours.range },
        { series: [4, 5], fill: alpha(colours.line, 0.4) },
      ];
    }

    take(found) {
      const column = (kind) => found.columns[`${kind}:${this.position}`] || found.x.map(() => null);
      const [most, least, expected, high, low] = ["most", "least", "expected", "high", "low"].map(column);
      this.data = [found.x, most, least, expected, high, low];
      this.ratio = column("ratio");
      this.none.hidden = low.some((v) => v !== null);
      this.range = range(low, high, least, most, found.x, this.picture.view);
    }

    badge(text) {
      this.badges.replaceChildren(...(text ? [h("span", { class: "nn-badge" }, text)] : []));
    }

    /** Mark samples beyond the range; where that is not judged, those of alarms about this channel. */
    over(u) {
      const [x, , , , high, low] = u.data;
      const { colours, events } = this.picture;
      const spans = events.alarms.filter((span) => this.concerned(span));
      const inside = (i) => spans.some((s) => s.start < (x[i + 1] ?? Infinity) && s.end >= x[i]);
      const beyond = (i) => (this.ratio[i] === null ? inside(i) : this.ratio[i] >= 1);
      const dot = 3.2 * devicePixelRatio;
      this.inside(u, (ctx) => {
        ctx.strokeStyle = ctx.fillStyle = colours.alarm;
        ctx.lineWidth = 1.75 * devicePixelRatio;
        ctx.lineJoin = "round";
        for (const [begin, stop] of runs(x, (i) => low[i] !== null && beyond(i))) {
          ctx.beginPath();
          for (let i = begin; i < stop; i++) {
            const px = u.valToPos(x[i], "x", true);
            const [a, b] = [u.valToPos(high[i], "y", true), u.valToPos(low[i], "y", true)];
            ctx.lineTo(px, a);
            if (b !== a) ctx.lineTo(px, b);
            ctx.fillRect(px - dot / 2, a - dot / 2, dot, b - a + dot);
          }
          ctx.stroke();
        }
      });
    }

    read(at) {
      const [, most, least, expected, high, low] = this.data.map((column) => column[at]);
      if (low === null || low === undefined) return ["no value"];
      const ratio = this.ratio[at];
      const outside = ratio === null ? (most !== null && high > most) || (least !== null && low < least) : ratio >= 1;
      const texts = NN.numbers([low, high, expected, least, most], 4, this.unit);
      const value = high === low ? texts[0] : `${texts[0]} to ${texts[1]}`;
      const found = [h("b", { class: outside ? "nn-bad" : "" }, value)];
      if (expected !== null && expected !== undefined) {
        const range = least === null ? "" : ` (${texts[3]} to ${texts[4]})`;
        found.push(
          h(
            "span",
            { class: "nn-expected" },
            ` · expected ${texts[2]}`,
            h("span", { class: "nn-range" }, range, ratio >= 1 ? ` · ${NN.number(ratio, 3)} × its limit` : ""),
          ),
        );
      }
      return found;
    }

    describe(clock, view) {
      const [, , , , high, low] = this.data;
      const known = low.filter((v) => v !== null);
      const span = clock.span(...view);
      if (!known.length) return `${this.name}: no values, ${span}`;
      const top = high.reduce((m, v) => (v !== null && v > m ? v : m), -Infinity);
      const bottom = known.reduce((m, v) => (v < m ? v : m), Infinity);
      return `${this.name}: between ${NN.number(bottom)} and ${NN.number(top)}, ${span}`;
    }
  };

  /** Where a condition holds: the first position of each run, and that after its last. */
  function runs(x, holds) {
    const found = [];
    for (let i = 0; i < x.length; i++) {
      if (!holds(i)) continue;
      const begin = i;
      while (i < x.length && holds(i)) i++;
      found.push([begin, i]);
    }
    return found;
  }

  /** The range of an axis: all values in view; the expected range too, unless it dwarfs them. */
  function range(low, high, least, most, x, view) {
    let [bottom, top, from, to] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < x.length; i++) {
      if (x[i] < view[0] && x[i + 1] < view[0]) continue;
      if (x[i] > view[1] && x[i - 1] > view[1]) continue;
      if (low[i] !== null && low[i] < bottom) bottom = low[i];
      if (high[i] !== null && high[i] > top) top = high[i];
      if (least[i] !== null && least[i] < from) from = least[i];
      if (most[i] !== null && most[i] > to) to = most[i];
    }
    if (top < bottom && !(from <= to)) return NOTHING;
    if (top < bottom) [bottom, top] = [from, to];
    const span = top - bottom || Math.abs(top) * 0.02 || 1;
    if (from <= to)
      [bottom, top] = [
        Math.min(bottom, Math.max(from, bottom - span)),
        Math.max(top, Math.min(to, top + span)),
      ];
    const room = 0.08 * (top - bottom || span);
    return [bottom - room, top + room];
  }
})();
