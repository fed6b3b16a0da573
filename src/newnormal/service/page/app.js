/* Start: who uses the page, then the view of the address, then events as they come. */
(function () {
  "use strict";
  const POLL = 15_000; // ms between two looks at the health

  /** Keep how many streams need attention, for the title and the header. */
  NN.takeCounts = function ({ counts }) {
    NN.need = NN.needOf(counts);
    NN.showCount(NN.need);
    NN.title();
  };

  let counting = 0;
  const count = () => {
    if (counting) return;
    counting = setTimeout(async () => {
      counting = 0;
      try {
        NN.takeCounts(await NN.api.get("/streams", { limit: 1 }));
      } catch {
        // the banner says that the service is gone
      }
    }, 500);
  };

  /* ------------------------------------------------------------------ news */

  const news = [];
  let telling = 0;

  /** Tell of new alarms, wherever the reader is. */
  function announce(event) {
    const { kind } = event;
    if (!["opened", "changed", "incident", "silent", "channels"].includes(kind)) return;
    news.push(event);
    clearTimeout(telling);
    telling = setTimeout(tell, news.length > 1 ? 600 : 250);
  }

  async function tell() {
    const found = news.splice(0);
    const words = { opened: "New alarm", changed: "Change", incident: "Incident", silent: "Silent", channels: "Other channels" };
    if (found.length > 2) {
      const alarms = found.filter((event) => event.kind === "opened").length;
      const text = alarms === found.length ? NN.plural(alarms, "new alarm") : `${NN.plural(found.length, "new item")} in the inbox`;
      NN.speak(text);
      if (NN.place().parts[0] !== "inbox") NN.say(text, "alarm", ["Show", "#/inbox"]);
      return;
    }
    for (const event of found) {
      const about = event.body.alarm || event.body.change || event.body.incident || event.body;
      const [item] = await NN.nameItems([NN.itemOf({ key: event.item, stream: event.stream, kind: "", body: {} })]);
      const text = `${words[event.kind]}${item.name ? `, ${item.name}` : ""}: ${NN.sentence(about.sentence)}`;
      NN.speak(text);
      const { parts } = NN.place();
      const seen =
        parts[0] === "inbox" || (parts[0] === "stream" && Number(parts[1]) === event.stream) || (!parts.length && scrollY < 300);
      if (!seen) NN.say(text, "alarm", event.item ? ["Show", NN.link(["item", event.item])] : undefined);
    }
  }

  /* ------------------------------------------------------------------ start */

  let begun = false;

  async function poll() {
    if (!NN.api.state.session) return;
    try {
      NN.showHealth((await NN.api.get("/health")).status);
    } catch {
      // the banner says that the service is gone
    }
  }

  async function lookForDemo() {
    try {
      const { simulated } = await NN.api.get("/settings");
      if (simulated) NN.showDemo(simulated);
    } catch {
      // nothing is lost but a line
    }
  }

  /** Follow what happens; called again after a login. */
  NN.begin = function () {
    NN.live.start();
    if (begun) return;
    begun = true;
    NN.api.on("event", announce);
    NN.api.on("event", (event) => event.kind !== "comment" && event.kind !== "updated" && NN.place().path !== "/" && count());
    NN.api.on("resync", count);
    NN.api.on("poll", poll);
    setInterval(poll, POLL);
    if (NN.place().path !== "/") count();
    setTimeout(poll, 1500);
    lookForDemo();
  };

  NN.api.on("locked", () => {
    NN.live.stop();
    NN.api.state.session = null;
    if (NN.place().parts[0] !== "login") location.hash = NN.link(["login"], { then: location.hash || "#/" });
  });

  NN.view(/^\//, () => ({
    title: "Not found",
    element: NN.h("div", { class: "nn-headline" }, NN.h("h1", {}, "There is no such page"), NN.h("p", {}, NN.h("a", { href: "#/" }, "All streams"))),
  }));

  addEventListener("hashchange", () => NN.go(false));

  async function start() {
    NN.build();
    let session = null;
    for (;;) {
      try {
        session = await NN.readSession();
        break;
      } catch {
        await new Promise((done) => setTimeout(done, 1500)); // the banner says that it cannot be reached
      }
    }
    if (!session && NN.place().parts[0] !== "login") history.replaceState(null, "", NN.link(["login"], { then: location.hash || "#/" }));
    if (session) NN.begin();
    NN.go(true);
    document.documentElement.dataset.ready = "true";
  }

  start();
})();
