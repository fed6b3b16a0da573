/* Small pictures: the ratio of a stream beside 1, and a channel around an alarm. */
(function () {
  "use strict";
  const SPACE = "http://www.w3.org/2000/svg";

  const svg = (tag, attributes, ...children) => {
    const made = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.filter(Boolean));
    return made;
  };
  const titled = (text) => {
    const made = svg("title", {});
    made.textContent = text;
    return made;
  };

  // The height of a ratio: 1 lies at 43 % whatever the ratios are.
  const part = (ratio) => Math.min(1, Math.log1p(4 * Math.max(0, ratio)) / Math.log1p(40));

  /** The ratios of the last stretches of a stream; those of 1 or above stand out. */
  NN.spark = function (ratios, height = 30) {
    const wide = 30; // as many as lists of streams have
    const at = (k) => wide - ratios.length + k;
    const tall = (ratio) => (height - 2 - part(ratio) * (height - 4)).toFixed(1);
    const known = ratios.filter((each) => each !== null);
    const top = known.reduce((most, each) => Math.max(most, each), 0);
    const root = svg("svg", {
      class: "nn-spark",
      viewBox: `0 0 ${wide} ${height}`,
      height,
      preserveAspectRatio: "none",
      role: "img",
    });
    root.append(
      titled(
        known.length
          ? `Ratio to the limit: now ${NN.ratio(known.at(-1))}, highest ${NN.ratio(top)}; the dashed line is 1`
          : "Not judged yet",
      ),
    );
    root.append(svg("line", { class: "nn-spark-threshold", x1: 0, x2: wide, y1: tall(1), y2: tall(1) }));
    let line = "";
    let above = "";
    let pen = "M";
    ratios.forEach((ratio, k) => {
      if (ratio === null) return void (pen = "M");
      line += `${pen}${at(k) + 0.5} ${tall(ratio)}`;
      if (ratio >= 1) above += `M${at(k)} ${height}V${tall(ratio)}h1V${height}z`;
      pen = "L";
    });
    if (above) root.append(svg("path", { class: "nn-spark-above", d: above }));
    if (line) root.append(svg("path", { class: "nn-spark-line", d: line }));
    return root;
  };

  /**
   * One channel around an alarm: its values, the range that was expected, and when it was in alarm.
   * `points` is what the service gives of a series, `span` the beginning and end of the alarm.
   */
  NN.channelPicture = function (points, span, label) {
    const [wide, high] = [560, 120];
    const column = (kind) => points.columns[Object.keys(points.columns).find((name) => name.startsWith(`${kind}:`))] || [];
    const [low, top, expected, least, most, ratio] = NN.KINDS.map(column);
    const x = points.x;
    const known = [...low, ...top, ...least, ...most].filter((each) => each !== null && each !== undefined);
    if (x.length < 2 || !known.length) return null;
    const [bottom, ceiling] = known.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
    const room = 0.08 * (ceiling - bottom || 1);
    const px = (v) => (((v - x[0]) / (x.at(-1) - x[0])) * wide).toFixed(1);
    const py = (v) => (high - ((v - bottom + room) / (ceiling - bottom + 2 * room)) * high).toFixed(1);
    const path = (values) => {
      let [found, pen] = ["", "M"];
      values.forEach((v, k) => {
        if (v === null || v === undefined) return void (pen = "M");
        found += `${pen}${px(x[k])} ${py(v)}${pen === "M" ? "h0" : ""}`; // a dot, where it is alone
        pen = "L";
      });
      return found;
    };
    const band = (lower, upper) => {
      const there = x.map((_, k) => k).filter((k) => lower[k] !== null && upper[k] !== null && lower[k] !== undefined);
      if (!there.length) return "";
      const up = there.map((k) => `${px(x[k])} ${py(upper[k])}`);
      const down = there.reverse().map((k) => `${px(x[k])} ${py(lower[k])}`);
      return `M${up.join("L")}L${down.join("L")}Z`;
    };
    const [from, to] = span.map((v) => Math.min(x.at(-1), Math.max(x[0], v)));
    const root = svg("svg", {
      class: "nn-channel-picture",
      viewBox: `0 0 ${wide} ${high}`,
      preserveAspectRatio: "none",
      role: "img",
    });
    root.append(
      titled(label),
      svg("rect", {
        class: "nn-cp-alarm",
        x: px(from),
        y: 0,
        width: Math.max(3, px(to) - px(from)),
        height: high,
      }),
      svg("path", { class: "nn-cp-range", d: band(least, most) }),
      svg("path", { class: "nn-cp-expected", d: path(expected) }),
      svg("path", { class: "nn-cp-spread", d: band(low, top) }),
      svg("path", { class: "nn-cp-line", d: path(top) }),
      ...[low, top].map((edge) => svg("path", { class: "nn-cp-beyond", d: path(edge.map((v, k) => (ratio[k] >= 1 ? v : null))) })),
    );
    return { element: root, bottom, ceiling, from: x[0], to: x.at(-1) };
  };
})();
