/* Numbers, times and elements. */
(function () {
  "use strict";

  const MANY = 7; // significant digits above which a number has no prefix
  const PREFIXES = { 5: "P", 4: "T", 3: "G", 2: "M", 1: "k", 0: "", "-1": "m", "-2": "µ", "-3": "n" };
  // Units that a prefix is written to; before any other one it stands alone: "2.5 M req/s".
  const PREFIXED = new Set([..."BbAFHJLNVWglms", "bit", "bps", "Bps", "Hz", "Wh", "VA", "Ah", "Pa", "mol", "Ω"]);
  const two = (value) => String(value).padStart(2, "0");

  /** Make an element: attributes by name, `on…` for listeners, children as text or elements. */
  NN.h = function (tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "style") made.style.cssText = value; // the attribute is against a strict policy
      else made.setAttribute(name, value === true ? "" : value);
    }
    made.append(
      ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
    );
    return made;
  };

  /**
   * The name of a stream or a channel: written from right to left, it changes nothing around it.
   * What `watch` of one stream keeps has no name.
   */
  NN.name = (text) => NN.h("bdi", {}, text || "one stream");

  /** A number with its unit, in so many significant digits, with an SI prefix where it is large. */
  NN.number = (value, digits = 5, unit = "") => NN.numbers([value], digits, unit)[0];

  const minus = (text) => text.replace(/^-/, "−");

  /**
   * Numbers beside each other: one prefix and precision, and different ones look different.
   * `newnormal.texts.number_texts` has the same rule.
   */
  NN.numbers = function (values, digits = 5, unit = "") {
    const sizes = values.filter((v) => v && Number.isFinite(v)).map(Math.abs);
    const typical = sizes.sort((a, b) => b - a).slice(0, 2).at(-1) || 1;
    const count = new Set(values.map((v) => (v === undefined || Number.isNaN(v) ? null : v))).size;
    let texts;
    for (let more = digits; more <= 17; more++) {
      texts = values.map((v) => written(v, typical, more, unit));
      if (new Set(texts).size === count) break;
    }
    return texts;
  };

  /** A number with the prefix and the decimals of a typical one; else with its own. */
  function written(value, typical, digits, unit) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const size = Math.abs(value);
    if (size && !(size >= 1e-9 && size < 1e18))
      return `${minus(value.toExponential(digits - 1).replace(/\.?0+e/, "e"))} ${unit}`.trimEnd();
    const isPrefixed = PREFIXED.has(unit.split("/")[0]);
    const [least, most] = isPrefixed ? [0.1, 1e4] : [1e-4, 1e5];
    let power, decimals, scaled;
    const own = size || typical;
    for (const like of [Math.min(Math.max(typical, 1e-9), 1e17), own]) {
      const [exponent, digitsOf] = [like, own >= 10 * like ? own : like].map(
        (x) => +x.toExponential(digits - 1).split("e")[1],
      );
      power = 0;
      if (digits <= MANY && !(like >= least && like < most))
        power = Math.min(Math.floor(exponent / 3), unit === "s" ? 0 : 5);
      decimals = Math.max(0, digits - 1 - digitsOf + 3 * power);
      scaled = power < 0 ? value * 1000 ** -power : value / 1000 ** power;
      const shown = Math.abs(scaled);
      if (shown >= 9.5 * 10 ** -decimals && shown < (power ? 1e4 : most)) break;
    }
    if (!value && !isPrefixed) power = 0;
    const [whole, part = ""] = scaled.toFixed(Math.min(99, decimals)).split(".");
    const rest = part.replace(/0+$/, "");
    const number = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (rest && `.${rest}`);
    return `${minus(number)} ${PREFIXES[power]}${isPrefixed || !power ? "" : " "}${unit}`.trimEnd();
  }

  NN.count = (value) => value.toLocaleString("en-US");

  NN.plural = (count, one, many) => `${NN.count(count)} ${count === 1 ? one : many || `${one}s`}`;

  /** How many alarms, changes or channels a stream has, those included that the file leaves out. */
  NN.total = (stream, what) => stream[what].length + ((stream.more && stream.more[what]) || 0);

  /** Labels of a number axis: short, and as many digits as its steps need. */
  NN.ticks = function (splits) {
    const step = splits.length > 1 ? Math.abs(splits[1] - splits[0]) : 1;
    const needed = (size, most) => {
      let digits = 0;
      while (
        digits < most &&
        Math.abs(size * 10 ** digits - Math.round(size * 10 ** digits)) > 1e-6 * size * 10 ** digits
      )
        digits++;
      return digits;
    };
    const size = Math.max(...splits.map(Math.abs));
    if (size > 0 && (size >= 1e5 || size < 1e-3)) {
      const power = Math.floor(Math.log10(size) / 3) * 3;
      const unit = PREFIXES[power / 3] || `e${power}`;
      const digits = needed(step / 10 ** power, 3);
      return apart(splits, (v) => (v === 0 ? "0" : minus((v / 10 ** power).toFixed(digits)) + unit));
    }
    const digits = needed(step, 6);
    return apart(splits, (v) => minus(v.toFixed(digits)));
  };

  /** Labels that differ: where the digits do not separate them, how far each is above the lowest. */
  function apart(splits, label) {
    const labels = splits.map(label);
    if (new Set(labels).size === labels.length) return labels;
    return splits.map((v, k) => (k ? `+${NN.number(v - splits[0], 3)}` : labels[0]));
  }

  /** What an axis shows: places as text, and dates for uPlot in the zone of the stream. */
  NN.clock = function (axis) {
    if (axis.kind !== "time") {
      const text = (x) => `sample ${NN.count(Math.round(x))}`;
      const labels = (places) => places.map((x) => (Number.isInteger(x) ? NN.count(x) : ""));
      return {
        time: false,
        zone: "",
        text,
        labels,
        span: (x0, x1) => `samples ${NN.count(Math.round(x0))} to ${NN.count(Math.round(x1))}`,
      };
    }
    const wall = walls(axis.zone);
    const read = (x) => new Date(wall(x * 1000));
    const day = (d) => d.toISOString().slice(0, 10);
    const hour = (d, fine) => {
      const minutes = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`;
      if (!fine) return minutes;
      const milli = d.getUTCMilliseconds();
      return `${minutes}:${two(d.getUTCSeconds())}${milli ? `.${String(milli).padStart(3, "0")}` : ""}`;
    };
    const text = (x) => `${day(read(x))} ${hour(read(x), true)}`;
    const span = (x0, x1) => {
      const whole = x1 - x0 < 5 ? (x) => x : Math.round;
      const [a, b] = [read(whole(x0)), read(whole(x1))];
      const fine = x1 - x0 < 600;
      return `${day(a)} ${hour(a, fine)} to ${day(a) === day(b) ? "" : `${day(b)} `}${hour(b, fine)}`;
    };
    /** Labels of an axis with so many seconds between them; the day, or year, below where it changes. */
    const labels = (places, step) => {
      let before = "";
      return places.map((x) => {
        if (x === null) return "";
        const [date, clock] = read(x).toISOString().slice(0, -1).split("T");
        const long = step >= 86_400;
        const above =
          step >= 31_536_000
            ? date.slice(0, 4)
            : step >= 2_419_200
              ? date.slice(0, 7)
              : long
                ? date.slice(5)
                : clock.slice(0, step >= 60 ? 5 : step >= 1 ? 8 : 12);
        const below = step >= 2_419_200 ? "" : long ? date.slice(0, 4) : date;
        const news = below !== before;
        before = below;
        return news && below ? `${above}\n${below}` : above;
      });
    };
    return { time: true, zone: axis.zone || "", text, span, labels, date: (x) => local(wall(x * 1000)) };
  };

  /** A function from milliseconds to those of a UTC clock that shows what the zone's clock does. */
  function walls(zone) {
    const offset = /^([+-])(\d\d):?(\d\d)$/.exec(zone || "");
    if (offset) {
      const shift = (offset[1] === "-" ? -60_000 : 60_000) * (60 * offset[2] + +offset[3]);
      return (ms) => Math.round(ms) + shift;
    }
    if (!zone || zone === "UTC") return (ms) => Math.round(ms);
    let format;
    try {
      const part = "2-digit";
      format = new Intl.DateTimeFormat("en-US", {
        timeZone: zone,
        hourCycle: "h23",
        year: "numeric",
        month: part,
        day: part,
        hour: part,
        minute: part,
        second: part,
      });
    } catch {
      return walls("UTC"); // a zone that this browser does not know
    }
    return (ms) => {
      const part = {};
      for (const { type, value } of format.formatToParts(ms)) part[type] = +value;
      const milli = ((Math.round(ms) % 1000) + 1000) % 1000;
      return Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second, milli);
    };
  }

  /** A Date whose local fields are the UTC fields of these milliseconds: uPlot reads local ones. */
  function local(ms) {
    const d = new Date(ms);
    return new Date(
      d.getUTCFullYear(),
      d.getUTCMonth(),
      d.getUTCDate(),
      d.getUTCHours(),
      d.getUTCMinutes(),
      d.getUTCSeconds(),
      d.getUTCMilliseconds(),
    );
  }

  /** The colours of the page's theme, for canvases. */
  NN.colours = function (element) {
    const style = getComputedStyle(element);
    const names = [
      "ink",
      "muted",
      "grid",
      "line",
      "expected",
      "range",
      "alarm",
      "alarm-tint",
      "label",
      "pending",
      "accepted",
      "rejected",
      "ground",
    ];
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  };
})();
