/* Items: alarms, changes, incidents, silences and other channels, with their evidence and what may be decided. */
(function () {
  "use strict";
  const h = NN.h;

  const names = new Map(); // of streams, by their numbers

  /** Keep the names of streams that were read. */
  NN.learnNames = (streams) => streams.forEach((stream) => names.set(stream.id, stream.name));

  /** An item with times in seconds. */
  NN.itemOf = function (raw) {
    const item = { ...raw, body: raw.body || {} };
    for (const name of ["opened", "updated", "ended"]) item[name] = NN.seconds(raw[name]);
    const known = raw.stream_name || (raw.stream === null ? null : names.get(raw.stream));
    if (raw.stream_name) names.set(raw.stream, raw.stream_name);
    item.sentence = NN.sentence(raw.sentence);
    item.name = known || (raw.stream === null || raw.stream === undefined ? "" : `stream ${raw.stream}`);
    return item;
  };

  /** Read the names of streams that items are about and that are not known yet. */
  NN.nameItems = async function (items) {
    const unknown = [...new Set(items.map((item) => item.stream))].filter((id) => id !== null && !names.has(id));
    await Promise.all(
      unknown.slice(0, 20).map((id) =>
        NN.api.get(`/streams/${id}`).then(
          (stream) => names.set(id, stream.name),
          () => names.set(id, `stream ${id}`),
        ),
      ),
    );
    for (const item of items) if (names.has(item.stream)) item.name = names.get(item.stream);
    return items;
  };

  /** The state of an item as a chip: words first, colour besides. */
  NN.chip = function (item) {
    const kind = { open: "alarm", pending: "pending", accepted: "accepted", rejected: "rejected" }[item.state];
    return h("span", { class: `nn-chip ${kind ? `nn-chip-${kind}` : ""}` }, NN.stateText(item));
  };

  /** How many seconds an item lasted: an alarm up to its last faulty sample, not until it closed. */
  NN.lasted = function (item) {
    if (item.kind !== "alarm") return item.ended - item.opened;
    const { start, end, start_time: first, end_time: last } = item.body;
    return end > start ? ((NN.seconds(last) - NN.seconds(first)) * (end - start + 1)) / (end - start) : 0;
  };

  /** Since when and for how long, and how severe. */
  NN.duration = function (item) {
    const parts = [];
    if (NN.isOpen(item)) {
      parts.push(["since ", NN.time(item.opened)]);
      const passed = (item.seen || 0) - item.opened; // known where the newest sample is
      if (passed > 0) parts.push(`for ${NN.lasting(passed)}`);
    } else if (item.kind === "incident" && item.ended > item.opened) {
      parts.push([NN.time(item.opened), " to ", NN.time(item.ended)]);
    } else {
      parts.push(NN.time(item.opened));
      const lasted = item.ended === null ? 0 : NN.lasted(item);
      if (lasted > 0) parts.push(`lasted ${NN.lasting(lasted)}`);
    }
    const { severity, severity_word: word } = item.body || {};
    if (item.kind === "alarm" && severity) parts.push(`severity ${severity}, ${word}`);
    return NN.facts(parts);
  };

  /** How bad an item was, in words; "" where that says nothing. */
  NN.peak = function (item) {
    if (item.kind === "alarm" && item.ratio > 0) return `peak ${NN.ratio(item.ratio)} × the limit`;
    if (item.kind === "change" && item.body.distance >= 1) return `distance from normal ${NN.ratio(item.body.distance)} × the limit`;
    return "";
  };

  /** What was observed beside what was expected. */
  NN.evidence = function (item) {
    const { body } = item;
    if (item.kind === "alarm" && (body.evidence || []).length) {
      return NN.evidenceTable(body.evidence, (body.peak && body.peak.channels) || {});
    }
    if (item.kind === "change" && (body.channels || []).length && body.before) return NN.levelsTable(body);
    if (item.kind === "channels") {
      const row = (title, found) =>
        found && found.length ? [h("dt", {}, title), h("dd", {}, found.map((name, k) => [k ? ", " : null, NN.name(name)]))] : null;
      return h(
        "dl",
        { class: "nn-pairs" },
        row("New", body.added || body.new),
        row("Gone", body.missing || body.gone || body.removed),
      );
    }
    return null;
  };

  /** The streams of an incident: what happened in each and for how long, as far as that is known. */
  function incidentStreams(item) {
    const most = 40;
    const alarms = new Map((item.related || []).map((each) => [each.stream_name, NN.itemOf(each)]));
    const all = Object.keys(item.body.streams || {});
    const known = all.filter((name) => alarms.has(name));
    const others = all.filter((name) => !alarms.has(name));
    const rest = Math.max(item.body.count || 0, all.length) - known.length - Math.min(most, others.length);
    return [
      known.length &&
        h(
          "ol",
          { class: "nn-incident-streams", "aria-label": "Streams" },
          known.map((name) => {
            const alarm = alarms.get(name);
            return h(
              "li",
              {},
              h("a", { href: NN.link(["stream", alarm.stream], { item: alarm.key }) }, NN.name(name)),
              h("span", { class: "nn-sentence" }, alarm.sentence),
              h("span", { class: "nn-facts" }, NN.duration(alarm), " ", NN.isOpen(alarm) ? NN.chip(alarm) : null),
            );
          }),
        ),
      (others.length || rest > 0) &&
        h(
          "p",
          { class: "nn-streams" },
          others.slice(0, most).map((name) => h("a", { href: NN.link(["named", ...name.split("/")]) }, NN.name(name))),
          rest > 0 && h("span", {}, `and ${NN.count(rest)} more`),
        ),
    ];
  }

  /* ------------------------------------------------------------------ decisions */

  const TITLES = {
    accept: (item) =>
      item.kind === "alarm" && item.state === "closed"
        ? `Accept alarm ${item.number} as normal?`
        : `Accept ${NN.kindText(item.kind).toLowerCase()} as normal?`,
    reject: (item) => (item.kind === "channels" ? "Keep the channels as they are?" : `Reject ${NN.kindText(item.kind).toLowerCase()} as a fault?`),
  };
  const DONE = { accept: "Accepted", reject: "Rejected" };

  const mayDecide = () => {
    const role = NN.api.state.session && NN.api.state.session.role;
    return !role || role === "operate";
  };
  NN.mayDecide = mayDecide;

  /** Ask, then accept or reject an item. Gives the item as it is now, or null. */
  NN.decide = async function (item, verb) {
    const given = await NN.ask({
      title: TITLES[verb](item),
      text: [h("strong", {}, NN.name(item.name), `: ${item.sentence}`), NN.effect(verb, item.kind)],
      yes: verb === "accept" ? "Accept as normal" : "Reject as a fault",
      kind: verb === "accept" ? "primary" : "fault",
      comment: true,
    });
    if (!given) return null;
    try {
      const raw = await NN.api.post(`/items/${encodeURIComponent(item.key)}/${verb}`, given);
      const undo = verb === "accept" && item.kind !== "channels" ? ["Undo", () => NN.undo(item.stream, item.name)] : undefined;
      NN.say(`${DONE[verb]}: ${item.name}, ${NN.itemName(item).toLowerCase()}.`, "good", undo);
      const found = raw && raw.item ? NN.itemOf(raw.item) : { ...item };
      NN.api.tell("decided", found);
      return found;
    } catch (error) {
      NN.complain(error);
      return null;
    }
  };

  /** Ask, then undo the newest acceptance of a stream. */
  NN.undo = async function (id, name) {
    const given = await NN.ask({
      title: `Undo the newest acceptance of ${name}?`,
      text: "Model, threshold and accepted normal become what they were before the newest acceptance. If the stream is still away from that, a change opens: reject it, or it is accepted again by time.",
      yes: "Undo",
      kind: "danger",
      comment: true,
    });
    if (!given) return false;
    try {
      await NN.api.post(`/streams/${id}/undo`, given);
      NN.say(`The newest acceptance of ${name} is undone.`, "good");
      return true;
    } catch (error) {
      NN.complain(error);
      return false;
    }
  };

  /** The buttons of what may be decided about an item. */
  NN.decisions = function (item, done = () => {}) {
    const verbs = mayDecide() ? NN.verbs(item) : [];
    const text = (verb) => {
      if (item.kind === "channels") return verb === "accept" ? "Accept these channels" : "Keep the old ones";
      if (item.state === "rejected") return "Accept after all";
      return verb === "accept" ? "Accept as normal" : "Reject as a fault";
    };
    return verbs.map((verb) =>
      h(
        "button",
        {
          type: "button",
          class: `nn-button ${verb === "accept" ? "nn-accept" : "nn-reject"}`,
          "data-verb": verb,
          "aria-label": `${text(verb)}: ${NN.itemName(item).toLowerCase()}`, // an alarm and its change differ
          title: `${NN.effect(verb, item.kind)}`,
          onclick: async () => {
            const found = await NN.decide(item, verb);
            if (found) done(found);
          },
        },
        text(verb),
      ),
    );
  };

  /* ------------------------------------------------------------------ one item, all of it */

  /** A picture of the channel that an item is about, read when it is near the part that is seen. */
  function smallPicture(item) {
    const { body } = item;
    const channel =
      item.kind === "alarm"
        ? Object.keys((body.peak && body.peak.channels) || {})[0] || ((body.evidence || [])[0] || {}).channel
        : (body.channels || [])[0];
    if (!channel || item.stream === null || item.kind === "channels") return null;
    const box = h("figure", { class: "nn-small" }, h("p", { class: "nn-note" }, "reading the samples …"));
    const draw = async () => {
      try {
        const stream = await NN.api.get(`/streams/${item.stream}`);
        const end = item.ended === null ? Math.max(item.updated, NN.seconds(stream.newest)) : item.ended;
        const room = Math.max(0.6 * (end - item.opened), 40 * (stream.period || 1));
        const points = await NN.api.get(`/streams/${item.stream}/series`, {
          from: item.opened - room,
          to: end + (item.ended === null ? 0 : 0.4 * room),
          points: 280,
          channels: channel,
        });
        const made = NN.channelPicture(points, [item.opened, end], `${channel} around the ${item.kind}`);
        if (made && item.kind === "change") made.element.classList.add("nn-of-change");
        if (!made) return box.remove();
        box.replaceChildren(
          h(
            "figcaption",
            {},
            h("b", {}, NN.name(channel)),
            h("span", {}, `${NN.number(made.bottom, 3)} to ${NN.number(made.ceiling, 3)}`),
          ),
          made.element,
          h(
            "p",
            { class: "nn-small-axis" },
            h("span", {}, NN.moment(made.from)),
            h("span", { class: "nn-small-key" }, `coloured: beyond its range · shaded: ${item.kind === "change" ? "since the change" : "in alarm"} · grey: expected range`),
            h("span", {}, NN.moment(made.to)),
          ),
        );
      } catch (error) {
        if (error.status) box.remove();
      }
    };
    const near = new IntersectionObserver((seen) => {
      if (!seen.some((each) => each.isIntersecting)) return;
      near.disconnect();
      draw();
    });
    near.observe(box);
    return box;
  }

  /** What was written about an item, and a field to write more. */
  function comments(item, changed) {
    const list = h(
      "ol",
      { class: "nn-comments" },
      (item.comments || []).map((each) =>
        h(
          "li",
          {},
          h("span", { class: "nn-facts" }, h("b", {}, each.who || "somebody"), " · ", NN.time(NN.seconds(each.time))),
          h("span", { class: "nn-comment-text" }, each.text),
        ),
      ),
    );
    if (!mayDecide()) return list;
    const field = h("textarea", { rows: 1, maxlength: 2000, placeholder: "Write a comment", "aria-label": "Comment" });
    const send = async (event) => {
      event.preventDefault();
      const text = field.value.trim();
      if (!text) return;
      try {
        await NN.api.post(`/items/${encodeURIComponent(item.key)}/comments`, { text });
        field.value = "";
        changed();
      } catch (error) {
        NN.complain(error);
      }
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) send(event);
    });
    return [
      list,
      h(
        "form",
        { class: "nn-write", onsubmit: send },
        field,
        h("button", { type: "submit", class: "nn-button", title: "Ctrl + Enter" }, "Comment"),
      ),
    ];
  }

  /**
   * All about one item: what, where, since when, what to do, evidence, picture, comments.
   * `head` is the level of its heading.
   */
  NN.ItemDetail = class {
    constructor(key, head = 2, onchange = () => {}) {
      Object.assign(this, { key, head, onchange, item: null, gone: false });
      this.element = h("article", { class: "nn-item", "data-key": key }, h("p", { class: "nn-none" }, "reading …"));
      this.ready = this.read();
    }

    async read() {
      try {
        const raw = await NN.api.get(`/items/${encodeURIComponent(this.key)}`);
        if (this.gone) return;
        const [item] = await NN.nameItems([NN.itemOf(raw)]);
        if (!this.gone) this.show(item);
      } catch (error) {
        if (this.gone || error.status === 401) return;
        this.element.replaceChildren(
          h("p", { class: "nn-none", role: "alert" }, error.status === 404 ? "There is no such item; it may be older than what is kept." : error.message),
        );
      }
    }

    show(item) {
      const writing = this.element.querySelector(".nn-write textarea");
      const kept = writing && writing.value;
      const focused = writing && document.activeElement === writing;
      const pictured =
        this.item && this.item.updated === item.updated && this.item.ended === item.ended && this.picture;
      this.item = item;
      this.picture = pictured || smallPicture(item);
      const status = { alarm: "alarm", incident: "alarm", silence: "silence" }[item.kind] || "change";
      const sign = NN.isOpen(item) ? status : "live";
      const where =
        item.stream === null || item.stream === undefined
          ? null
          : h("a", { class: "nn-item-stream", href: this.streamLink(item) }, NN.name(item.name));
      const advice = NN.advice(item);
      const decide = NN.decisions(item, (found) => {
        this.onchange(found);
        this.read();
      });
      this.element.replaceChildren(
        ...[
          h(
            `h${this.head}`,
            { class: "nn-item-head", tabindex: "-1" },
            NN.badge(sign, NN.itemName(item)),
            " ",
            NN.chip(item),
          ),
          where && h("p", { class: "nn-item-where" }, where),
          h("p", { class: "nn-item-sentence" }, item.sentence),
          h(
            "p",
            { class: "nn-facts" },
            NN.duration(item),
            NN.peak(item) ? ` · ${NN.peak(item)}` : "",
            !NN.isOpen(item) && item.body.reason ? ` · ${item.body.reason}` : "",
          ),
          advice && h("p", { class: "nn-advice" }, h("strong", {}, "What to do: "), advice),
          (decide.length || where) &&
            h(
              "div",
              { class: "nn-decide" },
              decide,
              where && h("a", { class: "nn-button nn-as-button", href: this.streamLink(item) }, "Show in its picture"),
            ),
          ...(item.kind === "incident" ? incidentStreams(item) : []),
          this.picture,
          NN.evidence(item),
          related(item),
          h("section", { class: "nn-talk", "aria-label": "Comments" }, h(`h${this.head + 1}`, {}, "Comments"), comments(item, () => this.read())),
        ].filter(Boolean),
      );
      const field = this.element.querySelector(".nn-write textarea");
      if (field && kept) field.value = kept;
      if (field && focused) field.focus();
    }

    streamLink(item) {
      return NN.link(["stream", item.stream], { item: item.key });
    }

    leave() {
      this.gone = true;
    }
  };

  function related(item) {
    if (item.kind === "incident" || !(item.related || []).length) return null;
    return h(
      "p",
      { class: "nn-streams" },
      h("span", {}, "Belongs together with"),
      item.related
        .slice(0, 8)
        .map((each) => h("a", { href: NN.link(["item", each.key]), title: each.sentence || "" }, NN.itemName(each).toLowerCase())),
    );
  }

  NN.view(/^\/item\/.+/, (place) => {
    const key = place.parts[1];
    const detail = new NN.ItemDetail(key, 1);
    const ends = [
      NN.api.on("event", (event) => event.item === key && detail.read()),
      NN.api.on("resync", () => detail.read()),
    ];
    const back = h("p", { class: "nn-back" }, h("a", { href: "#/inbox" }, "‹ Inbox"));
    detail.ready.then(() => detail.item && NN.title([NN.itemName(detail.item), detail.item.name].filter(Boolean).join(": ")));
    return {
      element: h("div", { class: "nn-item-page" }, back, detail.element),
      title: "Item",
      ready: detail.ready,
      keys(event) {
        const verb = { a: "accept", r: "reject" }[event.key];
        const button = verb && detail.element.querySelector(`[data-verb=${verb}]`);
        if (button) button.click();
        else if (event.key === "c") detail.element.querySelector(".nn-write textarea")?.focus();
        else if (event.key === "s" && detail.item && detail.item.stream) location.hash = detail.streamLink(detail.item);
        else return false;
        return true;
      },
      leave: () => {
        detail.leave();
        ends.forEach((end) => end());
      },
    };
  });
})();
