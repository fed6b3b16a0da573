/* A list of any length of which only the rows that are seen are there. */
(function () {
  "use strict";
  const h = NN.h;
  const SPARE = 6; // rows above and below those that are seen
  const PAUSE = 90; // ms without scrolling before rows that are seen are asked for

  /**
   * Rows of one height, read in pages.
   *
   * `read(offset, limit)` gives a promise of `{items, total}`, `make(row)` an element with a link
   * and `same(a, b)` whether two rows look the same. The list lies in the page and scrolls with it.
   */
  NN.Rows = class {
    constructor({ read, make, same, label, height, page }) {
      Object.assign(this, { read, make, same, height, page });
      Object.assign(this, { rows: [], asked: new Set(), total: null, turn: 0, gone: false });
      this.shown = new Map(); // by position
      this.body = h("div", { class: "nn-rows", role: "rowgroup" });
      this.element = h("div", { class: "nn-rows-table", role: "table", "aria-label": label });
      this.onscroll = () => this.soon();
      addEventListener("scroll", this.onscroll, { passive: true });
      this.sized = new ResizeObserver(() => this.resize());
      this.sized.observe(document.documentElement);
    }

    leave() {
      this.gone = true;
      removeEventListener("scroll", this.onscroll);
      this.sized.disconnect();
      cancelAnimationFrame(this.frame);
      clearTimeout(this.pause);
    }

    /** Read anew what is seen; what is shown stays until then. Gives the first page, or null. */
    async restart() {
      const turn = ++this.turn;
      const first = this.total === null ? 0 : Math.min(...this.pages());
      const found = await this.read(first * this.page, this.page);
      if (turn !== this.turn || this.gone) return null;
      this.rows = [];
      this.asked = new Set([first]);
      this.take(found, first);
      this.draw();
      return found;
    }

    take(found, page) {
      found.items.forEach((row, k) => (this.rows[page * this.page + k] = row));
      this.total = Math.max(found.total, found.items.length ? page * this.page + found.items.length : 0);
      this.rows.length = Math.min(this.rows.length, this.total);
      this.element.setAttribute("aria-rowcount", String(this.total + 1));
    }

    /** The numbers of the pages that are seen. */
    pages() {
      const [first, last] = this.range();
      const found = [];
      for (let k = Math.floor(first / this.page); k <= Math.max(0, last) / this.page; k++) found.push(k);
      return found.length ? found : [0];
    }

    resize() {
      if (this.total !== null && this.height() !== this.tall) {
        this.shown.forEach(({ element }) => element.remove());
        this.shown.clear();
      }
      this.soon();
    }

    soon() {
      if (this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.draw();
      });
    }

    range() {
      const tall = this.tall || this.height();
      const top = this.body.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(-top / tall) - SPARE);
      const last = Math.min((this.total || 0) - 1, Math.ceil((innerHeight - top) / tall) + SPARE);
      return [Math.min(first, Math.max(0, last)), last];
    }

    draw() {
      if (this.gone || this.total === null) return;
      this.tall = this.height();
      this.body.style.height = `${this.total * this.tall}px`;
      const [first, last] = this.range();
      for (const [k, { element }] of this.shown)
        if (k < first || k > last || !this.rows[k]) {
          element.remove();
          this.shown.delete(k);
        }
      let before = null; // rows are in order in the page, as the tab key and readers take them
      let missing = false;
      for (let k = first; k <= last; k++) {
        const row = this.rows[k];
        if (!row) {
          missing = true;
          continue;
        }
        let there = this.shown.get(k);
        if (!there || (there.row !== row && !this.same(there.row, row))) {
          const made = this.make(row);
          made.style.transform = `translateY(${k * this.tall}px)`;
          made.setAttribute("aria-rowindex", String(k + 2));
          if (there) {
            const focused = there.element.contains(document.activeElement);
            there.element.replaceWith(made);
            if (focused) made.querySelector("a").focus({ preventScroll: true });
          }
          there = { element: made };
          this.shown.set(k, there);
        }
        there.row = row;
        const place = before ? before.nextSibling : this.body.firstChild;
        if (place !== there.element) this.body.insertBefore(there.element, place);
        before = there.element;
      }
      this.body.classList.toggle("nn-waiting", missing);
      if (missing) {
        clearTimeout(this.pause);
        this.pause = setTimeout(() => this.fill(), PAUSE);
      }
    }

    /** Ask for the pages that are seen and not there. */
    fill() {
      for (const page of this.pages()) {
        if (this.asked.has(page)) continue;
        this.asked.add(page);
        const { turn } = this;
        this.read(page * this.page, this.page).then(
          (found) => {
            if (turn !== this.turn || this.gone) return;
            this.take(found, page);
            this.draw();
          },
          (error) => {
            this.asked.delete(page); // asked again at the next scroll
            NN.complain(error);
          },
        );
      }
    }

    /** Read the pages that are seen once more. Gives the last answer, or null. */
    async renew() {
      const { turn } = this;
      let last = null;
      for (const page of this.pages()) {
        if (!this.asked.has(page)) continue;
        const found = await this.read(page * this.page, this.page);
        if (turn !== this.turn || this.gone) return null;
        this.take(found, page);
        last = found;
      }
      this.draw();
      return last;
    }

    /** Move the focus by some rows. */
    step(by) {
      const active = document.activeElement && document.activeElement.closest("[data-row]");
      const at = active ? [...this.shown].find(([, { element }]) => element === active)?.[0] : undefined;
      const [first] = this.range();
      const next = at === undefined ? first + (first ? SPARE : 0) : Math.min(this.total - 1, Math.max(0, at + by));
      const top = this.body.getBoundingClientRect().top + scrollY + next * this.tall;
      const head = 110; // pixels that stay at the top when the page scrolls
      if (top < scrollY + head) scrollTo(0, top - head);
      else if (top + this.tall > scrollY + innerHeight) scrollTo(0, top + this.tall - innerHeight + 12);
      this.draw();
      this.shown.get(next)?.element.querySelector("a").focus({ preventScroll: true });
    }
  };
})();
