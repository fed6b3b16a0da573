/* Logging in and out, and the page of a service that has no streams yet. */
(function () {
  "use strict";
  const h = NN.h;

  /** Read who uses the page; null where a login is needed. */
  NN.readSession = async function () {
    try {
      const session = await NN.api.get("/session", {}, { quiet: true });
      const known = session.who ? session : null; // nobody before a login
      NN.api.state.session = known;
      NN.api.state.csrf = session.csrf || null;
      NN.showSession(known);
      return known;
    } catch (error) {
      if (error.status === 401) return null;
      throw error;
    }
  };

  NN.logout = async function () {
    try {
      await NN.api.post("/logout", {}, { quiet: true });
    } catch (error) {
      if (error.status !== 401) return NN.complain(error);
    }
    NN.live.stop();
    NN.api.state.session = NN.api.state.csrf = null;
    NN.showSession(null);
    location.hash = "#/login";
    return undefined;
  };

  NN.view(/^\/login$/, (place) => {
    const problem = h("p", { class: "nn-bad", id: "token-problem", role: "alert" });
    const refuse = (text) => {
      problem.textContent = text;
      if (text) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    };
    const field = h("input", {
      type: "password",
      id: "token",
      name: "token",
      class: "nn-search nn-token",
      autocomplete: "current-password",
      required: true,
      spellcheck: "false",
      "aria-describedby": "token-problem",
    });
    const button = h("button", { type: "submit", class: "nn-button nn-primary" }, "Log in");
    const send = async (event) => {
      event.preventDefault();
      button.disabled = true;
      refuse("");
      try {
        await NN.api.post("/login", { token: field.value.trim() }, { quiet: true });
        field.value = "";
        await NN.readSession();
        NN.begin();
        const to = place.query.then;
        location.hash = to && to.startsWith("#/") ? to : "#/";
      } catch (error) {
        refuse(error.status === 401 ? "This token is not known here." : `${error.message} ${error.hint || ""}`);
        field.select();
      } finally {
        button.disabled = false;
      }
    };
    setTimeout(() => field.focus());
    return {
      title: "Log in",
      element: h(
        "form",
        { class: "nn-login", onsubmit: send },
        h("h1", {}, "Log in"),
        h("p", {}, "Whoever runs this service made a token for you. The page does not keep it: this browser stays logged in until you log out."),
        h("input", { type: "text", name: "username", value: "newnormal", autocomplete: "username", hidden: true }),
        h("label", { for: "token" }, "Token"),
        h("div", { class: "nn-login-row" }, field, button),
        problem,
        h(
          "p",
          { class: "nn-note" },
          "No token? ",
          h("code", {}, "newnormal serve service.toml token add NAME --role operate"),
          " on the machine of the service makes one; service.toml is the configuration it was started with, and is left out where there is none.",
        ),
      ),
    };
  });

  /* ------------------------------------------------------------------ first start */

  const code = (title, text) => {
    const copy = h(
      "button",
      {
        type: "button",
        class: "nn-button nn-copy",
        onclick: async () => {
          try {
            await navigator.clipboard.writeText(text);
            copy.textContent = "Copied";
            setTimeout(() => (copy.textContent = "Copy"), 2000);
          } catch {
            getSelection().selectAllChildren(block);
          }
        },
      },
      "Copy",
    );
    const block = h("code", {}, text);
    return h("section", { class: "nn-code", "aria-label": title }, h("div", { class: "nn-code-head" }, h("h2", {}, title), copy), h("pre", { tabindex: "0" }, block));
  };

  /** Programs that can send or be asked, where that is set, and what to write there. */
  const senders = (url) => [
    ["Prometheus", "in prometheus.yml, below remote_write", `url: ${url}/api/v1/write`],
    ["Telegraf", "in telegraf.conf, below [[outputs.influxdb_v2]]", `urls = ["${url}"]`],
    ["OpenTelemetry", "in the environment", `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=${url}/v1/metrics`],
    ["A bus or files", "MQTT, Kafka, PromQL and growing files, in service.toml, below [sources.plant]", 'kind = "mqtt"'],
  ];

  /** What to do first: push samples. */
  NN.firstStart = function () {
    const url = location.origin + location.pathname.replace(/\/$/, "");
    const token = NN.api.state.session && NN.api.state.session.login;
    const curl = [
      `curl ${url}/api/v1/samples \\`,
      token ? '  -H "Authorization: Bearer $TOKEN" \\' : null,
      "  -H 'Content-Type: application/json' \\",
      '  -d \'{"stream": "press-1", "values": {"temperature": 71.3, "pressure": 4.02}}\'',
    ]
      .filter(Boolean)
      .join("\n");
    const python = [
      "from newnormal.client import Client",
      "",
      `client = Client("${url}"${token ? ', token="…"' : ""})`,
      'client.push("press-1", {"temperature": 71.3, "pressure": 4.02})',
      'client.upload_history("press-1", "history.csv")  # goes live at once',
    ].join("\n");
    return h(
      "div",
      { class: "nn-first" },
      h(
        "div",
        { class: "nn-headline" },
        h("h1", { tabindex: "-1" }, "Ready for the first samples"),
        h("p", { class: "nn-line" }, "No stream has sent anything yet. A stream is a name with channels: it appears here by itself with its first sample."),
      ),
      code("From a shell", curl),
      code("From Python", python),
      h(
        "section",
        { class: "nn-list nn-senders", "aria-label": "From what you already run" },
        h("h2", {}, "From what you already run"),
        h(
          "dl",
          { class: "nn-pairs" },
          senders(url).map(([name, where, text]) => [h("dt", {}, name), h("dd", {}, h("span", {}, where), h("code", {}, text))]),
        ),
      ),
      h(
        "ol",
        { class: "nn-steps" },
        h("li", {}, h("b", {}, "Collecting. "), "Samples are kept until there are enough to learn from. Upload a history to skip this."),
        h("li", {}, h("b", {}, "Fitting. "), "A model learns what is normal, usually in less than a minute."),
        h("li", {}, h("b", {}, "Live. "), "Every sample is judged. Alarms and changes appear here, with what was expected."),
      ),
      h("p", { class: "nn-note" }, "To look around first: ", h("code", {}, "newnormal serve --demo"), " shows twenty simulated machines."),
    );
  };
})();
