/* The samples inside the page: base64 and deflate to typed arrays, and the points to draw of them. */
var NN = {};
(function () {
  "use strict";

  const SLICE = 1 << 18; // characters of base64 decoded at once; a multiple of 4
  const DENSEST = 4; // points a pixel; beyond that they are thinned here, keeping extremes

  /** Give other tasks of the page a chance to run. */
  function pause() {
    if (self.scheduler && scheduler.yield) return scheduler.yield();
    return new Promise((done) => {
      const channel = new MessageChannel();
      channel.port1.onmessage = () => {
        channel.port1.close();
        done();
      };
      channel.port2.postMessage(null);
    });
  }

  /** Unpack base64 text of deflated bytes; call `more` with the bytes and how many are there. */
  async function unpack(text, size, more) {
    const bytes = new Uint8Array(size);
    const packed = (await text).trim();
    let read = 0;
    const source = new ReadableStream({
      async pull(controller) {
        if (read >= packed.length) return controller.close();
        await pause();
        const piece = atob(packed.slice(read, read + SLICE));
        read += SLICE;
        const part = new Uint8Array(piece.length);
        for (let i = 0; i < piece.length; i++) part[i] = piece.charCodeAt(i);
        controller.enqueue(part);
      },
    });
    const reader = source.pipeThrough(new DecompressionStream("deflate")).getReader();
    let there = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      bytes.set(value, there);
      there += value.length;
      more(bytes, there);
    }
  }

  const width = (name) => (name === "x" ? 8 : 4);

  /** Where the bytes of a block end. */
  function end(block) {
    let found = 0;
    for (const [name, column] of Object.entries(block.columns)) {
      found = Math.max(found, column.at + width(name) * block.points);
    }
    return found;
  }

  /** The first position whose x is at least (above: greater than) `value`. */
  function position(x, value, above) {
    let low = 0;
    let high = x.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (above ? x[middle] <= value : x[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /**
   * What a picture draws, from the blocks of one stream.
   *
   * A provider has `points(x0, x1, width, channels)`, which returns what there is to draw of a
   * range on so many pixels, or a promise of it: `x`, `columns` (by name, null where missing; all
   * channels have low and high) and `per`, the samples behind one point; `exact` is true where
   * some stretches show every sample although others do not. It has `onmore`, called when finer
   * data have come, and `ready`, a promise of the first. This one takes the text of the page, or
   * a promise of it: the headline is there before nine megabytes have been parsed.
   */
  class Embedded {
    constructor(stream, text) {
      this.stream = stream;
      this.onmore = () => {};
      const ends = stream.blocks.map(end);
      this.blocks = [];
      const waiting = stream.blocks.map((block, k) => ({ block, ends: ends[k] }));
      waiting.sort((a, b) => a.ends - b.ends);
      let first;
      this.ready = new Promise((done) => (first = done));
      this.done = unpack(text, Math.max(0, ...ends), (bytes, there) => {
        const before = this.blocks.length;
        while (waiting.length && waiting[0].ends <= there)
          this.blocks.push(view(waiting.shift().block, bytes));
        if (before || !this.blocks.length) return;
        first();
        this.onmore(); // the coarsest; and once more when all are there
      });
      this.done.then(first, first);
      this.done.then(
        () => this.onmore(),
        () => {},
      );
    }

    points(x0, x1, pixels, channels) {
      const levels = this.blocks.filter((block) => !block.detail);
      if (!levels.length) return { x: [], columns: {}, per: 1, exact: false };
      levels.sort((a, b) => b.per - a.per);
      const inside = (block) => position(block.x, x1, true) - position(block.x, x0);
      const level = levels.find((block) => inside(block) >= pixels / 2) || levels.at(-1);
      const parts = level.per > 1 && inside(level) < pixels / 2 ? this.splice(level, x0, x1) : [];
      if (!parts.length) parts.push(stretch(level, x0, x1));
      return gather(parts, channels, pixels, this.stream.period);
    }

    /** The parts of a range: every sample where it is known, a level elsewhere. */
    splice(level, x0, x1) {
      const parts = [];
      const details = this.blocks.filter((b) => b.detail && b.end >= x0 && b.start <= x1);
      details.sort((a, b) => a.start - b.start);
      let from = x0;
      for (const block of details) {
        if (block.end <= from) continue;
        if (block.start > from) parts.push(stretch(level, from, block.start, parts.length > 0));
        parts.push(stretch(block, Math.max(from, block.start), Math.min(x1, block.end)));
        from = block.end;
      }
      if (parts.length && from < x1) parts.push(stretch(level, from, x1, true));
      return parts;
    }
  }

  function view(block, bytes) {
    const column = (name) => {
      const found = block.columns[name];
      if (!found) return edge(...name.split(":"));
      const type = name === "x" ? Float64Array : Float32Array;
      const size = width(name) * block.points;
      const at = bytes.byteOffset + found.at;
      const aligned = at % type.BYTES_PER_ELEMENT === 0;
      const buffer = aligned ? bytes.buffer : bytes.slice(found.at, found.at + size).buffer;
      return { values: new type(buffer, aligned ? at : 0, block.points), base: found.base || 0 };
    };
    // Where a point is one sample, the range is how far it reaches from what is expected.
    const edge = (kind, channel) => {
      const [side, sign] = { least: ["below", -1], most: ["above", 1] }[kind] || [];
      const reach = side && column(`${side}:${channel}`);
      if (!reach) return null;
      const { values, base } = column(`expected:${channel}`);
      return { values: values.map((value, i) => value + sign * reach.values[i]), base };
    };
    const cache = {};
    return {
      per: block.per,
      detail: block.detail,
      start: block.start,
      end: block.end,
      x: column("x").values,
      column: (name) => (name in cache ? cache[name] : (cache[name] = column(name))),
    };
  }

  /**
   * The positions of a block that a range needs, one more on each side so that lines reach its
   * edges. `after`: what lies before `x0` has been drawn, but the bucket that `x0` is inside of
   * has samples behind `x0`: it is drawn at `x0`, so that none of its extremes is lost.
   */
  function stretch(block, x0, x1, after) {
    const begin = after
      ? position(block.x, x0, true) - 1
      : block.detail
        ? position(block.x, x0)
        : position(block.x, x0) - 1;
    const stop = position(block.x, x1, true) + (block.detail ? 0 : 1);
    return {
      block,
      begin: Math.max(0, begin),
      stop: Math.min(block.x.length, stop),
      least: after ? x0 : -Infinity,
    };
  }

  NN.KINDS = ["low", "high", "expected", "least", "most", "ratio"]; // columns of a channel

  /** Join parts to plain arrays, null where a value is missing or samples are. */
  function gather(parts, channels, pixels, period) {
    const total = parts.reduce((sum, part) => sum + part.stop - part.begin, 0);
    const factor = Math.max(1, Math.ceil(total / (DENSEST * pixels)));
    const names = ["ratio", ...channels.flatMap((c) => NN.KINDS.map((kind) => `${kind}:${c}`))];
    const found = { x: [], columns: {}, per: 1, exact: false };
    names.forEach((name) => (found.columns[name] = []));
    let least = Infinity;
    for (const { block, begin, stop, least: from } of parts) {
      if (stop <= begin) continue;
      const per = block.per * factor;
      found.per = Math.max(found.per, per);
      least = Math.min(least, per);
      const cuts = [];
      for (let i = begin; i < stop; i += factor) cuts.push(i);
      const gap = period ? 1.5 * per * period + 2 * period : Infinity;
      const broken = cuts.map((i, k) => k > 0 && block.x[i] - block.x[i - 1] > gap);
      cuts.forEach((i, k) => {
        if (broken[k]) found.x.push((block.x[i - 1] + block.x[i]) / 2);
        found.x.push(Math.max(block.x[i], from));
      });
      cuts.push(stop);
      for (const name of names) fill(found.columns[name], block, name, cuts, broken);
    }
    found.exact = found.per > 1 && least === 1;
    return found;
  }

  function fill(out, block, name, cuts, broken) {
    const [kind, channel] = name.split(":");
    let column = block.column(name);
    if (!column && kind === "high") column = block.column(`low:${channel}`);
    for (let k = 0; k + 1 < cuts.length; k++) {
      if (broken[k]) out.push(null);
      if (!column) {
        out.push(null);
        continue;
      }
      const { values, base } = column;
      const [begin, stop] = [cuts[k], cuts[k + 1]];
      const value = stop - begin > 1 ? reduce[kind](values, begin, stop) : values[begin];
      out.push(Number.isNaN(value) ? null : base + value);
    }
  }

  const least = (values, begin, stop) => {
    let found = NaN;
    for (let i = begin; i < stop; i++)
      if (!(values[i] >= found)) found = values[i] === values[i] ? values[i] : found;
    return found;
  };
  const most = (values, begin, stop) => {
    let found = NaN;
    for (let i = begin; i < stop; i++)
      if (!(values[i] <= found)) found = values[i] === values[i] ? values[i] : found;
    return found;
  };
  const mean = (values, begin, stop) => {
    let sum = 0;
    let count = 0;
    for (let i = begin; i < stop; i++)
      if (values[i] === values[i]) [sum, count] = [sum + values[i], count + 1];
    return count ? sum / count : NaN;
  };
  const reduce = { low: least, least, high: most, most, expected: mean, ratio: most };

  NN.Embedded = Embedded;
  NN.position = position;
})();
