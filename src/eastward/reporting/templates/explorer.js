/* The operating-point explorer: moves the decision on the stored scores and shows what follows. */

function setUpExplorer() {
  const { classes, scores, cost: givenCost } = DATA;
  const size = classes.length;
  const root = find("#explorer");
  const stored = [...scores.offsets];
  const zeroOne = classes.map((_, i) => classes.map((__, j) => Number(i !== j)));
  let offsets = [...stored];
  let cost = (givenCost || zeroOne).map((row) => [...row]);

  const mode = () => find("input[name=mode]:checked", root).value;
  const focus = () => Number(find("#explorer-class").value);
  const beta = () => 2 ** Number(find("#explorer-beta").value);
  const show = (name, text) => { find(`[data-show="${name}"]`, root).textContent = text; };
  const minus = (text) => text.replace("-", "−");
  const number = (value, digits = 3) => minus((Number(value.toFixed(digits)) + 0).toFixed(digits));
  const signed = (value, digits = 3) => (Number(value.toFixed(digits)) > 0 ? "+" : "") + number(value, digits);
  const share = (value) => `${number(100 * value, 1)}\u00a0%`;
  const rounded = (value) => Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");
  const betaWord = (value) => String(Number(value.toPrecision(2)));

  const tableOf = (decisions) => confusionOf(scores.targets, decisions, scores.weights, size);
  const trained = tableOf(decideByOffsets(scores.log_probabilities, stored, scores.shifts));

  function currentTable() {
    const logs = scores.log_probabilities;
    return tableOf(mode() === "cost" ? decideByCost(logs, cost) : decideByOffsets(logs, offsets, scores.shifts));
  }

  /* ---- constraints on the class in focus ---- */

  const FREE = { recall: 0, precision: 0, share: 1 };
  const bounds = () => Object.fromEntries(
    Object.keys(FREE).map((name) => [name, Number(find(`#bound-${name}`).value)]),
  );
  const massOfRows = trained.flat().reduce((sum, mass) => sum + mass, 0);
  const keeps = (point) => slackOf(point, bounds(), massOfRows) > -1e-9;
  const tableAt = (offset) => {
    const moved = [...stored];
    moved[focus()] = offset;
    return tableOf(decideByOffsets(scores.log_probabilities, moved, scores.shifts));
  };

  /* Higher is better; the F1 of the class where the page does not know the metric. */
  function worthOf(table) {
    const value = metricValue(DATA.metric, table, cost);
    if (value === null) return fScore(1)(countsOf(table)[focus()]);
    return DATA.metric === "expected_cost" ? -value : value;
  }

  /* The best of the points that keep the bounds, or the one that comes closest. */
  function constrainedOffset() {
    const points = [...tradeOff(scores, stored, focus())];
    const kept = points.filter(keeps);
    if (!kept.length) {
      const slack = points.map((point) => slackOf(point, bounds(), massOfRows));
      return points[slack.indexOf(Math.max(...slack))].offset;
    }
    const asTrained = countsOf(trained)[focus()];
    const most = Math.max(40, Math.ceil(2e6 / (scores.targets.length * size)));
    const offers = thinned(kept, most).map((point) => point.offset);
    if (keeps(asTrained)) offers.unshift(stored[focus()]);
    const worth = offers.map((offset) => worthOf(tableAt(offset)));
    return offers[worth.indexOf(Math.max(...worth))];
  }

  const boundWords = () => {
    const wanted = bounds();
    const label = /[[\]]/.test(classes[focus()]) ? focus() : classes[focus()];
    return [
      ["recall", "recall", ">="], ["precision", "precision", ">="], ["share", "predicted_rate", "<="],
    ].filter(([name]) => wanted[name] !== FREE[name])
      .map(([name, metric, sign]) => `${metric}[${label}] ${sign} ${wanted[name].toFixed(2)}`);
  };

  /* ---- what is shown ---- */

  function tile(name, before, after, write = number) {
    show(name, write(after));
    const change = after - before;
    const unchanged = Math.abs(change) < 5e-4;
    show(`${name}-change`, unchanged ? "as trained" : `${signed(change)} vs. trained`);
  }

  function showTiles(table) {
    const [was, is] = [countsOf(trained)[focus()], countsOf(table)[focus()]];
    tile("precision", RATES.precision(was), RATES.precision(is));
    tile("recall", RATES.recall(was), RATES.recall(is));
    tile("f1", fScore(1)(was), fScore(1)(is));
    tile("cost", meanCost(trained, cost), meanCost(table, cost));
    const before = metricValue(DATA.metric, trained, cost);
    find("#tile-metric").hidden = before === null;
    if (before !== null) tile("metric", before, metricValue(DATA.metric, table, cost));
    all("[data-focus-name]", root).forEach((element) => { element.textContent = classes[focus()]; });
  }

  function showMatrix(table) {
    const counts = countsOf(table);
    all("#live-matrix td").forEach((cell, n) => {
      const [i, j] = [Math.floor(n / size), n % size];
      const part = ratio(table[i][j], counts[i].support);
      cell.textContent = rounded(table[i][j]);
      cell.classList.toggle("none", !table[i][j]);
      cell.style.setProperty("--strength", part.toFixed(3));
      cell.dataset.tip = `${rounded(table[i][j])} rows of ${classes[i]} decided as ${classes[j]}: `
        + `${share(part)} of true ${classes[i]}, ${share(ratio(table[i][j], counts[j].predicted))} of decided ${classes[j]}`;
      cell.setAttribute("aria-label", cell.dataset.tip);
    });
    all("#live-classes tbody tr").forEach((row, k) => {
      const values = [RATES.precision(counts[k]), RATES.recall(counts[k]), fScore(1)(counts[k])];
      values.forEach((value, n) => {
        row.cells[n + 1].textContent = number(value);
        row.cells[n + 1].style.setProperty("--share", value.toFixed(3));
      });
    });
  }

  function showCurve(table) {
    const picture = find("#trade-off");
    const x = (recall) => 46 + 260 * recall;
    const y = (precision) => 272 - 260 * precision;
    const points = tradeOff(scores, mode() === "cost" ? stored : offsets, focus());
    const path = points.map((point) => `${x(RATES.recall(point)).toFixed(1)},${y(RATES.precision(point)).toFixed(1)}`);
    find("polyline", picture).setAttribute("points", path.join(" "));
    showRegion(picture, points, path);
    [["was", trained], ["is", table]].forEach(([name, source]) => {
      const counts = countsOf(source)[focus()];
      find(`.${name}`, picture).setAttribute("transform", `translate(${x(RATES.recall(counts))} ${y(RATES.precision(counts))})`);
    });
    const counts = countsOf(table)[focus()];
    picture.setAttribute("aria-label", `Precision against recall of ${classes[focus()]} as its offset moves; now at `
      + `precision ${number(RATES.precision(counts))} and recall ${number(RATES.recall(counts))}.`);
  }

  /* Where the bounds are kept: an area of the picture, and the part of the curve that a threshold can reach. */
  function showRegion(picture, points, path) {
    const wanted = mode() === "constraint" ? bounds() : null;
    const { recall, precision } = wanted || { recall: 1, precision: 1 };
    const region = find(".region", picture);
    region.setAttribute("x", 46 + 260 * recall);
    region.setAttribute("width", 260 * (1 - recall));
    region.setAttribute("height", 260 * (1 - precision));
    const inside = points.map((point) => wanted !== null && keeps(point));
    const line = path.map((place, n) => (inside[n] ? `${n && inside[n - 1] ? "L" : "M"}${place}` : ""));
    find(".kept", picture).setAttribute("d", line.join(""));
    if (wanted === null) return;
    all("input[data-bound]", root).forEach((slider) => {
      const text = number(Number(slider.value), 2);
      find(`#${slider.id}-value`).textContent = text;
      slider.setAttribute("aria-valuetext", text);
    });
    show("bound-words", inside.some(Boolean)
      ? `The best ${DATA.metric} that keeps what is asked for, as the offset of ${classes[focus()]} moves.`
      : "No offset keeps all of this on these rows; the one that comes closest is shown.");
  }

  /* ---- the command that trains for what is seen ---- */

  /* The largest exp(b_j) p_j + s_j is the cheapest decision where missing class i costs exp(b_i), and deciding for j -s_j. */
  const costOfOffsets = () => {
    const unit = Math.exp(-Math.min(...offsets));
    const shifts = scores.shifts || offsets.map(() => 0);
    const highest = Math.max(...shifts);
    const price = (i, wrong, j) => wrong * Math.exp(offsets[i]) + highest - shifts[j];
    return zeroOne.map((row, i) => row.map((wrong, j) => Number((unit * price(i, wrong, j)).toPrecision(4))));
  };

  /* Each word in a box of its own, or a narrow page would break "--out" after its hyphens. */
  function showWords(target, command) {
    const parts = command.split(" ").flatMap((word) => {
      const box = document.createElement("span");
      box.className = "word";
      box.textContent = word;
      return [" ", box];
    });
    target.replaceChildren(...parts.slice(1));
  }

  function showCommand() {
    const preferring = mode() === "prefer";
    const [kind, strength] = beta() >= 1 ? ["recall", beta()] : ["precision", 1 / beta()];
    const limited = mode() === "constraint";
    const wanted = limited ? boundWords().join(", ") : "";
    const objective = preferring
      ? ["--metric", "f_beta", "--prefer", `${kind}:${classes[focus()]}=${betaWord(strength)}`]
      : ["--metric", "expected_cost", "--cost", "costs.json"];
    const words = limited
      ? [...DATA.objective, ...(wanted ? ["--subject-to", wanted] : [])]
      : [...objective, ...DATA.constraints];
    const suffix = { prefer: `${kind}-${betaWord(strength)}`, constraint: "constrained" }[mode()] || "costs";
    const command = [...DATA.train, ...words, "--out", `${DATA.folder}-${suffix}`];
    showWords(find("#explorer-command"), command.map(shellQuoted).join(" "));
    find("#cost-file-part").hidden = preferring || limited;
    const table = mode() === "cost" ? cost : costOfOffsets();
    const lines = table.map((row, i) => {
      const entries = row.map((value, j) => `${JSON.stringify(classes[j])}: ${value}`);
      return `  ${JSON.stringify(classes[i])}: {${entries.join(", ")}}`;
    });
    find("#cost-file").textContent = `{\n${lines.join(",\n")}\n}`;
  }

  function showControls() {
    all("[data-mode]", root).forEach((part) => { part.hidden = part.dataset.mode !== mode(); });
    show("beta", betaWord(beta()));
    show("beta-words", betaSentence());
    all("input[data-offset]", root).forEach((slider) => {
      const k = Number(slider.dataset.offset);
      const value = size === 2 ? offsets[0] - offsets[1] : offsets[k];
      if (document.activeElement !== slider) slider.value = value;
      const text = size === 2 ? `${share(1 / (1 + Math.exp(-value)))}` : signed(value, 2);
      find(`#offset-${k}-value`).textContent = text;
      slider.setAttribute("aria-valuetext", text);
    });
    find("#explorer-beta").setAttribute("aria-valuetext", `beta ${betaWord(beta())}. ${betaSentence()}`);
  }

  function betaSentence() {
    const strength = betaWord(beta() >= 1 ? beta() : 1 / beta());
    if (Math.abs(Math.log2(beta())) < 0.05) return "Precision and recall count the same.";
    return beta() > 1
      ? `Finding every ${classes[focus()]} counts ${strength} times as much as avoiding false alarms.`
      : `Avoiding false alarms counts ${strength} times as much as finding every ${classes[focus()]}.`;
  }

  function refresh() {
    const table = currentTable();
    showControls();
    showTiles(table);
    showMatrix(table);
    showCurve(table);
    showCommand();
  }

  /* ---- what moves it ---- */

  function applyBeta() {
    const label = focus();
    offsets = [...stored];
    offsets[label] = bestPoint(tradeOff(scores, stored, label), beta(), stored[label]).offset;
    refresh();
  }

  function applyBounds() {
    offsets = [...stored];
    offsets[focus()] = constrainedOffset();
    refresh();
  }

  /* What a change of class or of mode means for the point. */
  function applyMode() {
    if (mode() === "prefer") applyBeta();
    else if (mode() === "constraint") applyBounds();
    else refresh();
  }

  function applyOffset(slider) {
    const value = Number(slider.value);
    if (size === 2) offsets = [0, -value];
    else offsets[Number(slider.dataset.offset)] = value;
    refresh();
  }

  function applyCost(input) {
    const value = Number(input.value);
    if (input.value === "" || !Number.isFinite(value)) return;
    const { row, column } = input.dataset;
    if (column === undefined) cost[row] = cost[row].map((_, j) => (j === Number(row) ? 0 : value));
    else cost[row][column] = value;
    refresh();
  }

  function fillCosts() {
    all("input[data-row]", root).forEach((input) => {
      const { row, column } = input.dataset;
      input.value = cost[row][column === undefined ? (Number(row) ? 0 : 1) : column];
    });
  }

  find("#explorer-beta").addEventListener("input", applyBeta);
  find("#explorer-class").addEventListener("change", applyMode);
  all("input[data-bound]", root).forEach((slider) => slider.addEventListener("input", applyBounds));
  all("input[data-offset]", root).forEach((slider) => slider.addEventListener("input", () => applyOffset(slider)));
  all("input[data-row]", root).forEach((input) => input.addEventListener("input", () => applyCost(input)));
  all("input[name=mode]", root).forEach((choice) => choice.addEventListener("change", () => (
    mode() === "constraint" ? applyBounds() : refresh())));
  find("#explorer-reset").addEventListener("click", () => {
    offsets = [...stored];
    cost = (givenCost || zeroOne).map((row) => [...row]);
    find("#explorer-beta").value = 0;
    all("input[data-bound]", root).forEach((slider) => { slider.value = FREE[slider.dataset.bound]; });
    if (["cost", "constraint"].includes(mode())) find("input[name=mode][value=prefer]", root).checked = true;
    fillCosts();
    refresh();
  });

  root.hidden = false;
  fillCosts();
  refresh();
}
