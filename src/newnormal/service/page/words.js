/* Times, states and decisions in words. */
(function () {
  "use strict";
  const h = NN.h;

  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const clock = NN.clock({ kind: "time", zone });
  const MINUTE = 60;
  const HOUR = 3600;
  const DAY = 86_400;

  NN.zone = zone;
  NN.localClock = clock;

  /** Seconds since 1970 of a time as the service writes it (ISO 8601), or null. */
  NN.seconds = function (text) {
    if (text === null || text === undefined || text === "") return null;
    if (typeof text === "number") return text;
    // Nanoseconds, which not every browser reads.
    const found = Date.parse(String(text).replace(/(\.\d{3})\d+/, "$1")) / 1000;
    return Number.isNaN(found) ? null : found;
  };

  const day = (seconds) => clock.text(seconds).slice(0, 10);
  const now = () => Date.now() / 1000;

  /** When, short: the time of today, "yesterday", or the date. */
  NN.moment = function (seconds) {
    if (seconds === null) return "–";
    const text = clock.text(Math.floor(seconds));
    // Seconds matter while something happens, not afterwards.
    const fresh = Math.abs(now() - seconds) < 5 * MINUTE;
    const time = fresh ? text.slice(11) : text.slice(11, 16);
    if (text.slice(0, 10) === day(now())) return time;
    if (text.slice(0, 10) === day(now() - DAY)) return `yesterday ${time}`;
    return `${text.slice(0, 10)} ${time}`;
  };

  /** How long, in the two largest units that matter. */
  NN.lasting = function (seconds) {
    const s = Math.max(0, Math.round(seconds));
    if (s < 2 * MINUTE) return `${s} s`;
    if (s < 90 * MINUTE) return `${Math.round(s / MINUTE)} min`;
    if (s < DAY) {
      const minutes = Math.round((s % HOUR) / MINUTE);
      const hours = Math.floor(s / HOUR) + (minutes === 60 ? 1 : 0);
      return minutes % 60 ? `${hours} h ${minutes} min` : `${hours} h`;
    }
    if (s < 14 * DAY) {
      const hours = Math.round((s % DAY) / HOUR);
      const days = Math.floor(s / DAY) + (hours === 24 ? 1 : 0);
      const text = NN.plural(days, "day");
      return hours % 24 && days < 3 ? `${text} ${hours} h` : text;
    }
    return NN.plural(Math.round(s / DAY), "day");
  };

  /** How long ago by the reader's clock; "" for what lies ahead of it. */
  NN.ago = function (seconds) {
    const since = now() - seconds;
    if (since < -5) return "";
    return since < 5 ? "now" : `${NN.lasting(since)} ago`;
  };

  /** A time as an element that says all of it when asked. */
  NN.time = function (seconds, text) {
    if (seconds === null) return h("span", {}, "–");
    const title = `${clock.text(seconds)} ${zone}`;
    return h(
      "time",
      { class: "nn-time", datetime: new Date(seconds * 1000).toISOString(), title },
      text || NN.moment(seconds),
    );
  };

  /** A sentence without the time at its end, which is shown beside it in the reader's zone. */
  NN.sentence = (text) => (text || "").replace(/,? since \d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:?\d\d)?\.?$/, "");

  /** A ratio to the limit, short; below 0 it is 0. */
  NN.ratio = (value) => NN.number(Math.max(0, value), 2);

  /** Bytes in the unit that suits them. */
  NN.bytes = function (count) {
    if (count === null || count === undefined) return "–";
    return NN.number(count, 3, "B");
  };

  /** What a stream's status is called: what it needs a person for, else its state. */
  NN.statusOf = (stream) => stream.attention || stream.state;

  /** How far a stream that is not live yet has come. */
  NN.progress = function (stream) {
    if (stream.state === "fitting") return "Learning what is normal";
    if (!stream.needed) return "";
    const rest = Math.max(0, stream.needed - stream.samples);
    const period = stream.period;
    const left = rest && period ? `, about ${NN.lasting(rest * period)} to go` : "";
    return `${NN.count(Math.min(stream.samples, stream.needed))} of ${NN.plural(stream.needed, "sample")}${left}`;
  };

  const KINDS = {
    alarm: "Alarm",
    change: "Change",
    incident: "Incident",
    silence: "Silence",
    channels: "Other channels",
  };
  NN.kindText = (kind) => KINDS[kind] || kind;

  /** Kind and number of an item; an incident of streams that are silent together has no number. */
  NN.itemName = (item) => `${NN.kindText(item.kind)} ${item.number || ""}`.trim();

  /** What an item's state means. */
  NN.stateText = function (item) {
    if (item.state === "rejected") return stays(item) && item.kind !== "channels" ? "rejected, still there" : "rejected";
    if (item.state === "pending") return "waiting for a decision";
    return item.state;
  };

  const ADVICE = {
    alarm:
      "Look at the channels below. A fault: repair it, the alarm closes by itself. Normal from now on: accept it.",
    change: "Decide whether the new level is normal: accept it, or reject it as a fault.",
    rejected: "Repair it: nothing is learned from this stream until it is back to normal.",
    silence: "Check what sends this stream: its samples stopped.",
    channels: "Accept if these are the channels from now on: a model of them is fitted. Reject to stay as it is.",
    outage: "Check what sends these streams: all of them stopped at about the same time.",
    incident: "Look for what these streams have in common: it began in all of them at about the same time.",
  };

  /** What to do about an open item; "" where there is nothing to do. */
  NN.advice = function (item) {
    if (!NN.isOpen(item)) return "";
    if (item.kind === "change" && item.state === "rejected") return ADVICE.rejected;
    if (item.kind === "incident" && item.body.cause === "silence") return ADVICE.outage;
    return ADVICE[item.kind] || "";
  };

  /** Whether an item still concerns anybody: open, pending, or rejected and still there. */
  NN.isOpen = (item) => item.state === "open" || item.state === "pending" || stays(item);

  const stays = (item) => item.state === "rejected" && (item.ended === null || item.ended === undefined);

  /** What may be decided about an item. */
  NN.verbs = function (item) {
    if (item.kind === "alarm") return item.state === "open" ? ["accept", "reject"] : ["accept"];
    if (item.kind === "change" || item.kind === "channels") {
      if (item.state === "pending") return ["accept", "reject"];
      if (item.kind === "change" && stays(item)) return ["accept"];
    }
    return [];
  };

  const EFFECTS = {
    "accept alarm": "Samples like these are normal: the same pattern in the same channels does not alarm again.",
    "reject alarm": "This is a fault: if a lasting change began with it, that change is rejected too, and nothing is learned from it.",
    "accept change": "Where the stream is now is normal too. The change closes, and so does its alarm.",
    "reject change":
      "This is a fault, however long it lasts: the model goes back to what it was before, and learns nothing until the stream is back.",
    "accept channels": "A model with these channels is fitted. The present one goes on until that is done.",
    "reject channels": "The channels of the model stay as they are; values of others are ignored.",
  };
  NN.effect = (verb, kind) => EFFECTS[`${verb} ${kind}`] || "";
})();
