/* A small picture of a channel around an alarm. */
(function () {
  "use strict";
  const { svg } = NN;

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
      svg("title", {}, label),
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
