/* The theme, set before anything is drawn: what the reader chose, else what the system prefers. */
(function () {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      const kept = localStorage.getItem("newnormal-theme");
      return kept === "light" || kept === "dark" ? kept : null;
    } catch {
      return null;
    }
  }

  const current = () => document.documentElement.dataset.theme;
  const paint = (theme) => {
    document.documentElement.dataset.theme = theme || chosen() || (dark.matches ? "dark" : "light");
    dispatchEvent(new Event("nn-theme"));
  };
  paint();
  dark.addEventListener("change", () => paint());

  /** Show the other theme, and keep it. */
  self.toggleTheme = function () {
    const theme = current() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("newnormal-theme", theme);
    } catch {
      // it holds until the page is closed
    }
    paint(theme);
  };
})();
