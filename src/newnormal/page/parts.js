/* Parts that the report and the service's page have: status, facts, evidence, a small picture, the theme's button. */
(function () {
  "use strict";
  const h = NN.h;

  const STATUS = {
    alarm: ["In alarm", "nn-is-alarm"],
    change: ["Change pending", "nn-is-pending"],
    rejected: ["Rejected change persists", "nn-is-rejected"],
    silence: ["Silent", "nn-is-silent"],
    channels: ["Other channels", "nn-is-pending"],
    failed: ["Fit failed", "nn-is-failed"],
    collecting: ["Collecting", "nn-is-collecting"],
    fitting: ["Fitting", "nn-is-collecting"],
    live: ["Normal", "nn-is-normal"],
  };

  /** A status in words, with a sign that differs by form as well as by colour. */
  NN.badge = function (status, text) {
    const [words, name] = STATUS[status] || [status, "nn-is-normal"];
    return h(
      "span",
      { class: `nn-status ${name}` },
      h("span", { class: "nn-sign", "aria-hidden": "true" }),
      h("span", {}, text || words),
    );
  };

  /** Facts in a row, which breaks between them alone; what is empty is left out. */
  NN.facts = (parts) => parts.filter(Boolean).map((part, k) => [k ? " · " : null, h("span", {}, part)]);

  const table = (caption, columns, rows) =>
    h(
      "div",
      { class: "nn-scroll" },
      h(
        "table",
        { class: "nn-evidence" },
        h("caption", {}, caption),
        h("thead", {}, h("tr", {}, columns.map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, rows),
      ),
    );
  const head = (name, ...more) => h("th", { scope: "row" }, NN.name(name), more);

  const WORDS = { high: "too high", low: "too low", missing: "missing", within: "within its range" };

  /** What was observed in each channel of an alarm beside what was expected; `shares`: its part in the alarm. */
  NN.evidenceTable = function (evidence, shares) {
    const rows = evidence.map((each) => {
      const [observed, expected, low, high] = NN.numbers([each.observed, each.expected, each.low, each.high], 3, each.unit);
      const share = shares[each.channel];
      const missing = each.observed === null;
      return h(
        "tr",
        {},
        head(each.channel, share ? h("small", {}, ` ${Math.round(100 * share)} % of the alarm`) : null),
        h(
          "td",
          { class: /high|low|missing/.test(each.direction) ? "nn-bad" : "" },
          h("b", {}, missing ? "no value" : observed),
          missing ? null : h("small", {}, ` ${WORDS[each.direction] || ""}`),
        ),
        h("td", {}, expected),
        h("td", {}, each.low === null || each.low === undefined ? "–" : `${low} to ${high}`),
      );
    });
    return table("Evidence", ["Channel", "Observed", "Expected", "Expected range"], rows);
  };

  /** Where the channels of a change were, and where they are. */
  NN.levelsTable = function ({ channels, before, after = {}, units = {} }) {
    const rows = channels.map((name) => {
      const [old, now] = NN.numbers([before[name], after[name]], 3, units[name]);
      return h("tr", {}, head(name), h("td", {}, old), h("td", {}, h("b", {}, now)));
    });
    return table("Levels", ["Channel", "Before", "After"], rows);
  };

  /** Make an element of a picture: attributes by name; those without a value are left out. */
  NN.svg = function (tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(name, value);
    made.append(...children.filter(Boolean));
    return made;
  };

  // The height of a ratio: 1 lies at 43 % whatever the ratios are.
  const part = (ratio) => Math.min(1, Math.log1p(4 * Math.max(0, ratio)) / Math.log1p(40));

  /**
   * The ratios of a stream beside 1, small. There is room for as many as `wide`; the last is at the
   * right. `alarms` are spans of them; without, those of 1 or above stand out.
   */
  NN.spark = function (ratios, title, { wide = ratios.length, width, height = 30, alarms } = {}) {
    const at = (k) => wide - ratios.length + k;
    const tall = (ratio) => (height - 2 - part(ratio) * (height - 4)).toFixed(1);
    const span = ([from, to]) => {
      const size = Math.max(to - from + 1, wide / 60);
      const x = Math.min(wide - size, Math.max(0, (from + to + 1 - size) / 2));
      return NN.svg("rect", { class: "nn-spark-alarm", x, y: 0, width: size, height });
    };
    let line = "";
    let above = "";
    let pen = "M";
    ratios.forEach((ratio, k) => {
      if (ratio === null) return void (pen = "M");
      line += `${pen}${at(k) + 0.5} ${tall(ratio)}`;
      if (ratio >= 1 && !alarms) above += `M${at(k)} ${height}V${tall(ratio)}h1V${height}z`;
      pen = "L";
    });
    return NN.svg(
      "svg",
      { class: "nn-spark", viewBox: `0 0 ${wide} ${height}`, width, height, preserveAspectRatio: "none", role: "img" },
      NN.svg("title", {}, title),
      ...(alarms || []).map(span),
      NN.svg("line", { class: "nn-spark-threshold", x1: 0, x2: wide, y1: tall(1), y2: tall(1) }),
      above && NN.svg("path", { class: "nn-spark-above", d: above }),
      line && NN.svg("path", { class: "nn-spark-line", d: line }),
    );
  };

  /** The button that shows the other theme; `recolour` is called when another one is shown. */
  NN.themeButton = function (recolour) {
    const button = h("button", { type: "button", class: "nn-button nn-theme", onclick: () => self.toggleTheme() });
    const name = () => {
      const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      button.textContent = other === "light" ? "☀" : "☾";
      button.title = `Switch to the ${other} theme`;
      button.setAttribute("aria-label", button.title);
    };
    name();
    addEventListener("nn-theme", () => {
      name();
      recolour();
    });
    return button;
  };
})();
