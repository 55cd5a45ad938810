/* From stored scores to decisions, tables and numbers: functions only, nothing of the page.
   Rows of a table are true classes, columns decided ones. */

/* The class with the largest exp(b_j) p_j + s_j; without shifts s this is the argmax of log p + b. */
function decideByOffsets(logs, offsets, shifts) {
  const worth = shifts
    ? (row, j) => Math.exp(row[j] + offsets[j]) + shifts[j]
    : (row, j) => row[j] + offsets[j];
  return logs.map((row) => {
    let best = 0;
    for (let j = 1; j < row.length; j++) {
      if (worth(row, j) > worth(row, best)) best = j;
    }
    return best;
  });
}

/* The offset from which on one class wins over the others. */
function winningOffset(row, offsets, shifts, label) {
  const rivals = row.map((_, j) => j).filter((j) => j !== label);
  if (!shifts) return Math.max(...rivals.map((j) => row[j] + offsets[j])) - row[label];
  const best = Math.max(...rivals.map((j) => Math.exp(row[j] + offsets[j]) + shifts[j])) - shifts[label];
  return best > 0 ? Math.max(-30, Math.log(best) - row[label]) : -30;
}

/* The decision with the lowest expected cost; of equal ones the first. */
function decideByCost(logs, cost) {
  return logs.map((row) => {
    const p = row.map(Math.exp);
    const expected = row.map((_, j) => p.reduce((sum, share, i) => sum + share * cost[i][j], 0));
    return expected.indexOf(Math.min(...expected));
  });
}

function confusionOf(targets, decisions, weights, size) {
  const table = Array.from({ length: size }, () => new Array(size).fill(0));
  targets.forEach((target, n) => {
    table[target][decisions[n]] += weights ? weights[n] : 1;
  });
  return table;
}

function countsOf(confusion) {
  const total = confusion.flat().reduce((a, b) => a + b, 0);
  return confusion.map((row, k) => {
    const support = row.reduce((a, b) => a + b, 0);
    const predicted = confusion.reduce((sum, other) => sum + other[k], 0);
    const tp = row[k];
    return { tp, fp: predicted - tp, fn: support - tp, tn: total - support - predicted + tp, support, predicted };
  });
}

const ratio = (numerator, denominator) => (denominator > 0 ? numerator / denominator : 0);

const fScore = (beta) => ({ tp, fp, fn }) =>
  ratio((1 + beta * beta) * tp, (1 + beta * beta) * tp + beta * beta * fn + fp);

const RATES = {
  precision: ({ tp, fp }) => ratio(tp, tp + fp),
  recall: ({ tp, fn }) => ratio(tp, tp + fn),
  specificity: ({ tn, fp }) => ratio(tn, tn + fp),
  jaccard: ({ tp, fp, fn }) => ratio(tp, tp + fp + fn),
  fowlkes_mallows: ({ tp, fp, fn }) => ratio(tp, Math.sqrt((tp + fp) * (tp + fn))),
};

function averageOf(rate, counts, average) {
  if (average === "binary") return counts.length === 2 ? rate(counts[1]) : null;
  if (average === "micro") {
    const pooled = { tp: 0, fp: 0, fn: 0, tn: 0 };
    counts.forEach((row) => Object.keys(pooled).forEach((key) => (pooled[key] += row[key])));
    return rate(pooled);
  }
  const weight = (row) => (average === "weighted" ? row.support : Number(row.support + row.predicted > 0));
  const mass = counts.reduce((sum, row) => sum + weight(row), 0);
  return ratio(counts.reduce((sum, row) => sum + weight(row) * rate(row), 0), mass);
}

function matthews(counts) {
  const sum = (term) => counts.reduce((total, row) => total + term(row), 0);
  const joint = sum(({ tp, fp, fn, tn }) => tp * tn - fp * fn);
  const truth = sum(({ tp, fp, fn, tn }) => (tp + fn) * (fp + tn));
  const decided = sum(({ tp, fp, fn, tn }) => (tp + fp) * (fn + tn));
  return ratio(joint, Math.sqrt(truth) * Math.sqrt(decided));
}

function kappa(counts) {
  const sum = (term) => counts.reduce((total, row) => total + term(row), 0);
  return ratio(
    sum(({ tp, fp, fn, tn }) => tp * tn - fp * fn),
    sum(({ tp, fn, tn }) => (tp + fn) * (fn + tn)),
  );
}

function meanCost(confusion, cost) {
  const total = confusion.flat().reduce((a, b) => a + b, 0);
  return ratio(confusion.flat().reduce((sum, mass, n) => sum + mass * cost.flat()[n], 0), total);
}

/* The value of a metric by its name, or null for one that is not known here. */
function metricValue(name, confusion, cost) {
  const counts = countsOf(confusion);
  const present = counts.filter((row) => row.support > 0);
  const seen = counts.filter((row) => row.support + row.predicted > 0);
  const whole = {
    accuracy: () => averageOf(RATES.recall, counts, "weighted"),
    balanced_accuracy: () => ratio(present.reduce((sum, row) => sum + RATES.recall(row), 0), present.length),
    geometric_mean: () => seen.reduce((product, row) => product * RATES.recall(row) ** (1 / seen.length), 1),
    matthews_corrcoef: () => matthews(counts),
    cohen_kappa: () => kappa(counts),
    expected_cost: () => meanCost(confusion, cost),
  };
  if (Object.hasOwn(whole, name)) return whole[name]();
  const parts = /^(.+?)(?:_(macro|micro|weighted))?$/.exec(name);
  const beta = /^f(\d+(?:\.\d+)?)$/.exec(parts[1]);
  const rate = beta ? fScore(Number(beta[1])) : Object.hasOwn(RATES, parts[1]) ? RATES[parts[1]] : null;
  return rate ? averageOf(rate, counts, parts[2] || "binary") : null;
}

/* Every distinct decision that the offset of one class can bring, the others staying where they are. */
function tradeOff(scores, offsets, label) {
  const rows = scores.log_probabilities.map((row, n) => {
    return {
      margin: winningOffset(row, offsets, scores.shifts, label),
      hit: scores.targets[n] === label,
      mass: scores.weights ? scores.weights[n] : 1,
    };
  });
  rows.sort((a, b) => a.margin - b.margin);
  const positives = rows.reduce((sum, row) => sum + (row.hit ? row.mass : 0), 0);
  const points = [];
  let tp = 0;
  let fp = 0;
  rows.forEach((row, n) => {
    if (row.hit) tp += row.mass;
    else fp += row.mass;
    const next = n + 1 < rows.length ? rows[n + 1].margin : row.margin + 1;
    if (next > row.margin) points.push({ offset: (row.margin + next) / 2, tp, fp, fn: positives - tp });
  });
  return points;
}

/* The point with the best F-beta; of equal ones the nearest to the offset in use. */
function bestPoint(points, beta, offset) {
  const value = fScore(beta);
  return points.reduce((best, point) => {
    const gain = value(point) - value(best);
    const nearer = Math.abs(point.offset - offset) < Math.abs(best.offset - offset);
    return gain > 1e-12 || (gain > -1e-12 && nearer) ? point : best;
  });
}

/* How far a point keeps a lower bound of recall, one of precision, and an upper bound of the share decided for the class. */
function slackOf(point, bounds, total) {
  return Math.min(
    RATES.recall(point) - bounds.recall,
    RATES.precision(point) - bounds.precision,
    bounds.share - ratio(point.tp + point.fp, total),
  );
}

/* Evenly ranked ones of a list that is too long, its ends among them. */
function thinned(list, most) {
  if (list.length <= most) return list;
  return Array.from({ length: most }, (_, k) => list[Math.round((k * (list.length - 1)) / (most - 1))]);
}

/* One word of a command line, safe to paste into a shell whatever it contains. */
function shellQuoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
