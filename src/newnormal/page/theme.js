/* The theme, set before anything is drawn: what the reader chose, else what the system prefers. */
(function () {
  "use strict";
  const KEY = "newnormal-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    const kept = localStorage.getItem(KEY);
    if (kept === "light" || kept === "dark") chosen = kept;
  } catch {
    // nothing is kept here, as in a notebook
  }

  const theme = () => chosen || (dark.matches ? "dark" : "light");
  const paint = (shown) => {
    document.documentElement.dataset.theme = shown;
    dispatchEvent(new Event("nn-theme"));
  };
  paint(theme());
  dark.addEventListener("change", () => paint(theme()));
  addEventListener("beforeprint", () => paint("light")); // paper is
  addEventListener("afterprint", () => paint(theme()));

  /** Show the other theme, and keep it. */
  self.toggleTheme = function () {
    chosen = theme() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // it holds until the page is closed
    }
    paint(chosen);
  };
})();
