/* The samples of a stream as the service thins them, and a picture that grows with them. */
(function () {
  "use strict";
  const KEPT = 8; // answers
  const WAIT = 70; // ms that a range must stay the same before it is asked for
  const MOST = 50; // channels that the service gives at once

  /**
   * What a picture draws, from the service (see `Embedded` for what a provider is).
   *
   * What is known is drawn at once, however coarse; finer points are asked for, and drawn when
   * they have come.
   */
  NN.Remote = class {
    /** `names` of the channels, and their `positions` at the service, in the order of the picture. */
    constructor(id, names, positions, full) {
      Object.assign(this, { id, positions, full, entries: [], onmore: () => {}, gone: false });
      // A name may have commas; a position might be read as a name.
      const numbers = names.some((each) => /^\d+$/.test(each));
      this.words = numbers ? names : positions;
      this.ready = this.fetch(...full, 900, []).then((found) => {
        this.overview = found;
        return found;
      });
    }

    leave() {
      this.gone = true;
      clearTimeout(this.timer);
      if (this.controller) this.controller.abort();
    }

    points(x0, x1, width, channels) {
      if (!channels.length && this.overview && x0 <= this.full[0] && x1 >= this.full[1]) return this.overview.found;
      const scale = (x1 - x0) / width;
      const [from, to] = [Math.max(x0, this.full[0]), Math.min(x1, this.full[1])];
      const has = (entry) => channels.every((c) => entry.channels.has(c));
      const covers = (entry) => entry.x0 <= from + 1e-6 && entry.x1 >= to - 1e-6;
      const fine = (entry) => entry.per === 1 || entry.scale <= 1.3 * scale;
      const best = this.entries.find((entry) => has(entry) && covers(entry) && fine(entry));
      if (best) return this.cut(best, x0, x1, channels);
      this.ask(from, to, width, channels);
      const overlap = (entry) => Math.min(to, entry.x1) - Math.max(from, entry.x0);
      const known = [...this.entries, this.overview].filter((entry) => entry && overlap(entry) > 0);
      known.sort((a, b) => has(b) - has(a) || overlap(b) - overlap(a) || a.scale - b.scale);
      return known.length ? this.cut(known[0], x0, x1, channels) : { x: [], columns: {}, per: 1, exact: false };
    }

    /** The points of a range, one more on each side so that lines reach its edges. */
    cut(entry, x0, x1, channels) {
      this.current = entry;
      const { x, columns, per } = entry.found;
      const begin = Math.max(0, NN.position(x, x0) - 1);
      const stop = Math.min(x.length, NN.position(x, x1, true) + 1);
      const found = { x: x.slice(begin, stop), columns: {}, per, exact: false };
      const names = ["ratio", ...channels.flatMap((c) => NN.KINDS.map((kind) => `${kind}:${c}`))];
      for (const name of names)
        found.columns[name] = columns[name] ? columns[name].slice(begin, stop) : found.x.map(() => null);
      return found;
    }

    /** Ask for a range with room on both sides, when it has stayed the same for a moment. */
    ask(x0, x1, width, channels) {
      clearTimeout(this.timer);
      this.timer = setTimeout(async () => {
        if (this.controller) this.controller.abort();
        const controller = (this.controller = new AbortController());
        const room = 0.4 * (x1 - x0);
        const [from, to] = [Math.max(this.full[0], x0 - room), Math.min(this.full[1], x1 + room)];
        const pixels = Math.ceil((width * (to - from)) / (x1 - x0));
        try {
          const entry = await this.fetch(from, to, pixels, channels, controller.signal);
          this.entries.unshift(entry);
          this.entries.length = Math.min(this.entries.length, KEPT);
          this.onmore();
        } catch (error) {
          if (error.name !== "AbortError" && !this.gone) setTimeout(() => this.onmore(), 3000);
        }
      }, this.entries.length ? WAIT : 0);
    }

    async fetch(x0, x1, width, channels, signal) {
      const asked = new URLSearchParams({
        from: x0,
        to: x1,
        points: Math.max(10, Math.min(4000, Math.round(width))),
        channels: channels.slice(0, MOST).map((c) => this.words[c]).join(","),
      });
      const raw = await NN.api.get(`/streams/${this.id}/series?${asked}`, {}, { signal });
      if (this.gone) throw new DOMException("left", "AbortError");
      const found = { x: raw.x, columns: {}, per: raw.per, exact: false };
      const empty = () => raw.x.map(() => null);
      found.columns.ratio = raw.columns.ratio || empty();
      for (const c of channels)
        for (const kind of NN.KINDS)
          found.columns[`${kind}:${c}`] = raw.columns[`${kind}:${this.positions[c]}`] || empty();
      return { x0, x1, scale: (x1 - x0) / width, per: raw.per, channels: new Set(channels), found };
    }

    /** Read the samples that came after those that are known. Gives whether there are any. */
    async grow(end) {
      if (this.growing || end <= this.full[1]) return false;
      this.growing = true;
      try {
        const entry = this.current && this.current.x1 >= this.full[1] - 1e-6 ? this.current : null;
        const channels = entry ? [...entry.channels] : [];
        const last = entry || this.overview;
        const from = last.found.x.length ? last.found.x.at(-1) : this.full[0];
        const tail = await this.fetch(from, end, 1500, channels);
        if (this.gone) return false;
        const reached = tail.found.x.length ? tail.found.x.at(-1) : this.full[1];
        if (entry) append(entry, tail);
        if (this.overview !== entry) append(this.overview, tail);
        this.entries = this.entries.filter(
          (each) => each === entry ? each.found.x.length < 9000 : each.x1 < this.full[1] - 1e-6,
        );
        this.full = [this.full[0], Math.max(this.full[1], reached)];
        if (entry) entry.x1 = this.full[1];
        this.overview.x1 = this.full[1];
        return true;
      } finally {
        this.growing = false;
      }
    }
  };

  /** Put newer points behind those that are known; the last of these may stand for some of them. */
  function append(entry, tail) {
    const { x, columns } = entry.found;
    if (!tail.found.x.length) return;
    const keep = NN.position(x, tail.found.x[0]);
    x.length = keep;
    tail.found.x.forEach((each) => x.push(each));
    for (const [name, values] of Object.entries(columns)) {
      values.length = keep;
      const more = tail.found.columns[name];
      tail.found.x.forEach((_, k) => values.push(more ? more[k] : null));
    }
  }

  /** A picture that follows its newest samples. */
  NN.LivePicture = class extends NN.Picture {
    /** Whether the newest sample is seen. */
    get following() {
      return this.view[1] >= this.full[1] - 1e-6;
    }

    /** Newer samples are there, up to a time. */
    grow(end) {
      const by = end - this.full[1];
      if (by <= 0) return;
      const { following } = this;
      const whole = this.whole();
      this.full = [this.full[0], end];
      this.stream.end = end;
      if (whole) this.view = [...this.full];
      else if (following) this.view = [this.view[0] + by, this.view[1] + by];
      for (const span of [...this.events.alarms, ...this.events.changes])
        if (span.of && span.of.open) span.end = end;
      if (this.provider.overview) this.overview = this.provider.overview.found;
      this.map.draw();
      this.refresh();
    }

    /** Show the newest samples, with the same length of time or another. */
    follow(span = this.view[1] - this.view[0]) {
      const [start, end] = this.full;
      this.show(Math.max(start, end - span), end);
    }
  };
})();
