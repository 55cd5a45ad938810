/* What the reader can do: change the theme, copy, walk through tables, move the operating point. */

const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const DATA = JSON.parse(find("#report-data").textContent);

function setUpTheme() {
  const button = find("#theme");
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
}

async function copyText(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    // Not every browser grants the clipboard to a local file: select the text and use the old way.
    getSelection().selectAllChildren(source);
    document.execCommand("copy");
  }
}

function setUpCopying() {
  all("button[data-copy]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await copyText(document.getElementById(button.dataset.copy));
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  });
}

/* One stop of the Tab key for a whole matrix; arrows walk inside, and a line below says what a cell means. */
function setUpMatrix(matrix) {
  const status = find(`#${matrix.dataset.status}`);
  const rows = all("tbody tr", matrix).map((row) => all("td", row));
  const cells = rows.flat();
  const tell = (event) => {
    const cell = event.target.closest("td");
    if (cell) status.textContent = cell.dataset.tip;
  };
  matrix.addEventListener("pointerover", tell);
  matrix.addEventListener("focusin", tell);
  cells.forEach((cell, n) => { cell.tabIndex = n ? -1 : 0; });
  matrix.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const row = rows.findIndex((entries) => entries.includes(event.target));
    if (!move || row < 0) return;
    event.preventDefault();
    const next = rows[row + move[0]]?.[rows[row].indexOf(event.target) + move[1]];
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

/* Says that a table scrolls, where it does. */
function setUpScrolling() {
  all(".scroll").forEach((box) => {
    const hint = document.createElement("p");
    hint.className = "scroll-hint";
    hint.textContent = "The table is wider than the screen and scrolls sideways";
    box.before(hint);
    const update = () => { hint.hidden = box.scrollWidth <= box.clientWidth + 1; };
    new ResizeObserver(update).observe(box);
    update();
  });
}

setUpTheme();
setUpCopying();
setUpScrolling();
all("table.matrix").forEach(setUpMatrix);
if (DATA.scores) setUpExplorer();
