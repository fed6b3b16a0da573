/* Alarms, changes and labels as bars above the panels. */
(function () {
  "use strict";
  const h = NN.h;

  const NARROWEST = 7; // pixels of a bar, so that an alarm of one sample is seen and can be hit
  const WIDEST = 32; // pixels of a bar that stands for several, so that there is a closer look at each part
  const BESIDE = 40; // pixels that the number beside the bar before may take
  const MOST_ROWS = 4;

  /** What happened in a stream, as spans on its axis. */
  NN.events = function (stream) {
    const alarms = stream.alarms.map((alarm) => ({
      kind: "alarm",
      number: alarm.number,
      start: alarm.start,
      end: alarm.end,
      of: alarm,
    }));
    const changes = stream.changes.map((change) => ({
      kind: "change",
      number: change.number,
      start: change.steps.length ? change.steps[0][0] : change.end,
      end: change.end,
      of: change,
    }));
    const labels = (stream.labels || []).map(([start, end], k) => ({
      kind: "label",
      number: k + 1,
      start,
      end,
      of: null,
    }));
    return { alarms, changes, labels };
  };

  /** The channels that an alarm or a change is about, with their shares, largest first. */
  NN.channelsOf = function (event) {
    if (!event.of) return {};
    if (event.kind === "change") return Object.fromEntries(event.of.channels.map((name) => [name, null]));
    const shares = event.of.shares || {};
    if (Object.keys(shares).length) return shares;
    return Object.fromEntries((event.of.evidence || []).map((each) => [each.channel, null]));
  };

  /** Spread spans that overlap over rows. */
  function rows(spans) {
    const ends = [];
    const found = [];
    for (const span of [...spans].sort((a, b) => a.start - b.start || b.end - a.end)) {
      let row = ends.findIndex((end) => end < span.start);
      if (row < 0) row = ends.length < MOST_ROWS ? ends.push(-Infinity) - 1 : MOST_ROWS - 1;
      ends[row] = Math.max(ends[row], span.end);
      (found[row] = found[row] || []).push(span);
    }
    return found;
  }

  /** One lane of bars: alarms, changes or labels. */
  NN.Lane = class {
    constructor(name, spans, onpick) {
      this.rows = rows(spans);
      this.onpick = onpick;
      this.bars = h("div", { class: "nn-bars" });
      this.element = h(
        "div",
        {
          class: `nn-lane nn-lane-${spans.length ? spans[0].kind : "none"}`,
          role: "group",
          "aria-label": name,
        },
        h("span", { class: "nn-lane-name", "aria-hidden": "true" }, name),
        this.bars,
      );
      this.element.style.setProperty("--rows", Math.max(1, this.rows.length));
    }

    draw(x0, x1, width, marked) {
      const scale = width / (x1 - x0);
      const place = (x) => (x - x0) * scale;
      const made = [];
      this.rows.forEach((spans, row) => {
        const groups = [];
        let open = null;
        const close = () => open && groups.push(open);
        for (const span of spans) {
          if (span.end < x0 || span.start > x1) continue;
          const middle = (place(span.start) + place(span.end)) / 2;
          const half = Math.max(NARROWEST, place(span.end) - place(span.start)) / 2;
          const left = Math.max(-2, middle - half);
          const right = Math.min(width + 2, middle + half);
          // Where rows do not suffice, a bar ends at the next one's beginning, which stays seen.
          if (open && open.until > span.start && left - open.left >= NARROWEST + 1)
            open.right = Math.min(open.right, left - 1);
          const touching = open && left < open.right + 1;
          if (touching && right - open.left <= WIDEST) {
            open.right = Math.max(open.right, right);
            open.until = Math.max(open.until, span.end);
            open.spans.push(span);
          } else {
            close();
            const from = touching ? Math.max(left, open.right + 1) : left;
            open = { left: from, right: Math.max(right, from + NARROWEST), spans: [span], until: span.end };
          }
        }
        close();
        groups.forEach((group, k) => {
          const next = k + 1 < groups.length ? groups[k + 1].left : width;
          const before = k ? groups[k - 1].right + BESIDE : 0;
          const room = { after: next - group.right, before: group.left - before };
          made.push(this.bar(group, row, marked, room, place));
        });
      });
      this.bars.replaceChildren(...made);
    }

    bar({ left, right, spans }, row, marked, room, place) {
      const [first, last] = [spans[0], spans.at(-1)];
      const size = right - left;
      const is = (span) => marked && marked.kind === span.kind && marked.number === span.number;
      const style = `left:${left.toFixed(1)}px;width:${size.toFixed(1)}px;--row:${row}`;
      if (first.kind === "label")
        return h("span", { class: "nn-event nn-label", style, title: "labelled as a fault" });
      const several = spans.length > 1;
      const noun = first.kind === "alarm" ? "Alarm" : "Change";
      const says = several
        ? `${noun}s ${first.number} to ${last.number}: ${spans.length} close together; zoom in to tell them apart`
        : `${noun} ${first.number}: ${first.of.sentence}`;
      const states = first.kind === "change" ? ` nn-${first.of.state}` : first.of.open ? " nn-open" : "";
      const text = several
        ? `${spans.length}×`
        : first.kind === "change"
          ? `${first.number} ${first.of.state}`
          : String(first.number);
      const short = several ? text : String(first.number);
      const fits = (words, space) => 7.5 * words.length + (first.kind === "change" ? 16 : 9) <= space;
      const label = [text, short].find((words) => fits(words, size));
      const near = (space) => (label ? undefined : [text, short].find((words) => fits(words, space)));
      const after = near(room.after);
      const beside = after || near(room.before);
      const side = label ? "" : after ? " nn-beside" : " nn-beside nn-before";
      const made = h("button", {
        type: "button",
        class: `nn-event nn-${first.kind}${states}${several ? " nn-several" : ""}`,
        style,
        title: says,
        "aria-label": says,
        "aria-pressed": spans.some(is) ? "true" : "false",
        "data-number": first.number,
        "data-count": spans.length,
        onclick: () => this.onpick(spans),
      });
      if (first.kind === "change" && !several) made.append(...this.steps(first, left, right, place));
      if (label || beside)
        made.append(h("span", { class: `nn-event-text${side}` }, label || beside));
      return made;
    }

    /** The states a change went through, one after the other. */
    steps(span, left, right, place) {
      const steps = span.of.steps;
      return steps.map(([x, state], k) => {
        const from = Math.max(left, place(x));
        const to = Math.min(
          right,
          k + 1 < steps.length ? place(steps[k + 1][0]) : Math.max(place(span.end), from + 4),
        );
        const style = `left:${Math.min(from - left, right - left - 4).toFixed(1)}px;width:${Math.max(0, to - from).toFixed(1)}px`;
        return h("i", { class: `nn-step nn-${state}`, style });
      });
    }
  };
})();
