/* The strip of the whole stream above a picture, and what mouse, touch and keys do. */
(function () {
  "use strict";
  const h = NN.h;

  const END =
    "position: absolute; top: 1px; padding: 0 2px; border-radius: 3px; font-size: 10px; line-height: 13px; " +
    "color: var(--muted); background: color-mix(in srgb, var(--soft) 75%, transparent); pointer-events: none; ";

  /** The whole stream in a strip: how high the ratio was, alarms, and the range that is seen. */
  NN.Map = class {
    constructor(picture) {
      this.picture = picture;
      this.canvas = h("canvas", { class: "nn-map-canvas", "aria-hidden": "true" });
      this.window = h("div", { class: "nn-window" });
      // Where the whole stream begins and ends: the axis below is that of the range shown.
      this.ends = ["left", "right"].map((side) => h("span", { class: "nn-map-end", style: `${END}${side}: 3px` }));
      this.element = h(
        "div",
        { class: "nn-map", title: "The whole stream; drag to move" },
        this.canvas,
        this.window,
        this.ends,
      );
      this.element.addEventListener("pointerdown", (event) => this.drag(event));
    }

    draw() {
      const { picture, canvas } = this;
      const found = picture.overview;
      if (!found) return;
      const [width, height] = [picture.pixels, canvas.clientHeight || 26];
      const ratio = devicePixelRatio;
      [canvas.width, canvas.height] = [width * ratio, height * ratio];
      const ctx = canvas.getContext("2d");
      ctx.scale(ratio, ratio);
      const { colours, full } = picture;
      const place = (x) => ((x - full[0]) / (full[1] - full[0])) * width;
      ctx.fillStyle = colours.label;
      for (const { start, end } of picture.events.labels)
        ctx.fillRect(place(start), height - 3, Math.max(1.5, place(end) - place(start)), 3);
      ctx.fillStyle = colours.alarm + "40";
      for (const { start, end } of picture.events.alarms)
        ctx.fillRect(place(start), 0, Math.max(1.5, place(end) - place(start)), height);
      const { ratio: far } = found.columns;
      const tall = (i) => Math.min(1, Math.log1p(4 * Math.max(0, far[i])) / Math.log1p(40)) * (height - 5);
      found.x.forEach((x, i) => {
        if (far[i] === null) return;
        const next = i + 1 < found.x.length ? found.x[i + 1] : x;
        const size = Math.max(1, place(next) - place(x));
        ctx.fillStyle = far[i] >= 1 ? colours.alarm : colours.line + "90";
        ctx.fillRect(place(x), height - 3 - tall(i), size, tall(i));
      });
    }

    place() {
      const { full, view } = this.picture;
      const span = full[1] - full[0];
      this.window.style.left = `${(100 * (view[0] - full[0])) / span}%`;
      this.window.style.width = `${(100 * (view[1] - view[0])) / span}%`;
      const whole = this.picture.whole();
      this.element.classList.toggle("nn-whole", whole);
      const texts = this.picture.clock.span(...full).split(" to ");
      this.ends.forEach((end, k) => {
        end.hidden = whole;
        end.textContent = texts[k];
      });
    }

    /** Drag the window, or draw another one. */
    drag(event) {
      if (event.button) return;
      const { picture } = this;
      const box = this.canvas.getBoundingClientRect();
      const read = (e) =>
        picture.full[0] + ((e.clientX - box.left) / box.width) * (picture.full[1] - picture.full[0]);
      const from = read(event);
      const begun = [...picture.view];
      const inside = !picture.whole() && from >= begun[0] && from <= begun[1];
      const move = (e) => {
        const by = read(e) - from;
        if (inside) picture.show(begun[0] + by, begun[1] + by);
        else if (Math.abs(e.clientX - event.clientX) > 4)
          picture.show(Math.min(from, from + by), Math.max(from, from + by));
      };
      const stop = (e) => {
        removeEventListener("pointermove", move);
        removeEventListener("pointerup", stop);
        const half = (begun[1] - begun[0]) / 2;
        if (!inside && !picture.whole() && Math.abs(e.clientX - event.clientX) <= 4)
          picture.show(from - half, from + half);
      };
      event.preventDefault();
      addEventListener("pointermove", move);
      addEventListener("pointerup", stop);
    }
  };

  /** Wheel, pinch, drag with shift, and one finger over the values. */
  NN.gestures = function (picture) {
    const { frame, head, list } = picture;
    const part = (clientX) => (clientX - list.getBoundingClientRect().left - picture.gutter) / picture.pixels;
    let timer = 0;

    frame.addEventListener(
      "wheel",
      (event) => {
        if (!head.contains(event.target) && !list.contains(event.target)) return;
        const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
        const meant =
          event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || head.contains(event.target);
        if (sideways && !event.ctrlKey && !event.shiftKey) {
          event.preventDefault();
          picture.pan(event.deltaX / picture.pixels);
        } else if (meant) {
          event.preventDefault();
          const delta = event.deltaY || event.deltaX;
          picture.zoom(
            Math.exp(
              Math.max(-120, Math.min(120, delta)) * (event.ctrlKey && Math.abs(delta) < 50 ? 0.01 : 0.0025),
            ),
            Math.min(1, Math.max(0, part(event.clientX))),
          );
        } else if (!picture.hinted) {
          picture.hinted = true; // once: the page itself scrolls
          picture.hint.hidden = false;
          clearTimeout(timer);
          timer = setTimeout(() => (picture.hint.hidden = true), 2500);
        }
      },
      { passive: false },
    );

    list.addEventListener("mousedown", (event) => {
      if (!event.shiftKey || event.button) return;
      event.preventDefault();
      let last = event.clientX;
      const move = (e) => {
        picture.pan((last - e.clientX) / picture.pixels);
        last = e.clientX;
      };
      const stop = () => {
        removeEventListener("mousemove", move);
        removeEventListener("mouseup", stop);
      };
      addEventListener("mousemove", move);
      addEventListener("mouseup", stop);
    });

    const places = (touches) => [...touches].map((touch) => part(touch.clientX)).sort((a, b) => a - b);
    const value = (at) => picture.view[0] + at * (picture.view[1] - picture.view[0]);
    let held = null;
    list.addEventListener(
      "touchstart",
      (event) => {
        held = event.touches.length === 2 ? places(event.touches).map(value) : null;
        if (held) event.preventDefault();
      },
      { passive: false },
    );
    list.addEventListener(
      "touchmove",
      (event) => {
        if (event.touches.length === 1) return picture.point(value(part(event.touches[0].clientX)));
        if (!held || event.touches.length !== 2) return undefined;
        event.preventDefault();
        const [a, b] = places(event.touches);
        const scale = (held[1] - held[0]) / Math.max(0.02, b - a);
        return picture.show(held[0] - a * scale, held[0] + (1 - a) * scale);
      },
      { passive: false },
    );
  };

  const KEYS = {
    ArrowLeft: (picture) => picture.pan(-0.25),
    ArrowRight: (picture) => picture.pan(0.25),
    "+": (picture) => picture.zoom(0.5),
    "=": (picture) => picture.zoom(0.5),
    "-": (picture) => picture.zoom(2),
    0: (picture) => picture.showAll(),
    n: (picture) => picture.step(1),
    p: (picture) => picture.step(-1),
  };

  /** Do what a key stands for; false where it stands for nothing. */
  NN.press = function (picture, event) {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
    )
      return false;
    const act = Object.hasOwn(KEYS, event.key) && KEYS[event.key];
    if (!act) return false;
    act(picture);
    return true;
  };
})();
