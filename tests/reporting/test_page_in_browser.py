"""The page in a real Chromium: it loads, it moves, it is right, and it works without a mouse."""

from __future__ import annotations

import io
import json
import re
import shlex
from importlib import resources

import numpy as np
import pytest
import torch
from browser import opened
from hostile import CLASSES, hostile_summary
from PIL import Image

import eastward as ew
from eastward.reporting import evaluation_summary, report_summary, write_report

# A browser takes a second to open a page: these belong to `make rest`.
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("browser")]


@pytest.fixture(scope="module")
def digits_path(tmp_path_factory):
    return write_report(digits_summary(), tmp_path_factory.mktemp("digits") / "report.html")


def digits_summary() -> dict:
    """Three classes, sampled and therefore weighted, with a tuned decision."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    X, y = load_digits(return_X_y=True)
    X, y = X[:, :24], np.digitize(y, [5, 8])
    model = LogisticRegression(max_iter=500, C=0.01).fit(X[::2], y[::2])
    evaluation = evaluation_summary(
        y[1::2],
        model.predict_log_proba(X[1::2]),
        ["low", "middle", "high"],
        "f1_macro",
        offsets=[0.0, 0.2, 0.4],
        max_scores=450,
    )
    return report_summary("Digits", "f1_macro", evaluation=evaluation)


def live_matrix(page) -> np.ndarray:
    cells = page.locator("#live-matrix td").all_inner_texts()
    size = round(len(cells) ** 0.5)
    return np.array([float(re.sub(r"\D", "", text)) for text in cells]).reshape(size, size)


def shown(page, name: str) -> float:
    return float(page.locator(f'[data-show="{name}"]').inner_text().replace("−", "-"))


def table_of(scores: dict, decisions: np.ndarray) -> np.ndarray:
    size = len(scores["offsets"])
    weights = scores["weights"] or np.ones(len(decisions))
    cells = np.array(scores["targets"]) * size + decisions
    return np.bincount(cells, weights=weights, minlength=size * size).reshape(size, size)


def logs_of(scores: dict) -> np.ndarray:
    return np.array(scores["log_probabilities"])


def decided(scores: dict, offsets: list) -> np.ndarray:
    """The table of argmax(log p + offsets)."""
    return table_of(scores, np.add(logs_of(scores), offsets).argmax(axis=1))


def agrees(page, confusion: np.ndarray, label: int, metric: str) -> None:
    """Matrix and tiles show this table."""
    assert live_matrix(page) == pytest.approx(confusion, abs=0.5)
    matrix = torch.tensor(confusion)
    for name, function in (
        ("precision", ew.metrics.precision),
        ("recall", ew.metrics.recall),
        ("f1", ew.metrics.f1),
    ):
        expected = float(function(matrix, average="none")[label])
        assert shown(page, name) == pytest.approx(expected, abs=6e-4)
    assert shown(page, "metric") == pytest.approx(float(ew.metrics.get(metric)(matrix)), abs=6e-4)


def test_the_page_loads_without_errors_or_requests_at_the_decision_that_was_trained(
    browser, report_path, summary
):
    with opened(browser, report_path) as page:
        assert page.title() == f"{summary['title']} · eastward report"
        assert live_matrix(page).tolist() == summary["evaluation"]["confusion"]
        assert shown(page, "metric") == pytest.approx(
            summary["evaluation"]["metrics"][0]["value"], abs=6e-4
        )


def test_the_threshold_slider_recomputes_everything(browser, report_path, summary):
    scores = summary["evaluation"]["scores"]
    with opened(browser, report_path) as page:
        page.check("input[value=offset]")
        for value in (-3.0, -0.5, 0.01, 1.2, 7.0):
            page.locator("#offset-1").fill(str(value))
            confusion = decided(scores, [0, -value])
            agrees(page, confusion, 1, "f1")
            threshold = 1 / (1 + np.exp(-value))
            assert page.locator("#offset-1-value").inner_text() == f"{100 * threshold:.1f}\u00a0%"
            wrong = (confusion.sum() - np.trace(confusion)) / confusion.sum()
            assert shown(page, "cost") == pytest.approx(wrong, abs=6e-4)


@pytest.mark.slow
def test_the_slider_of_beta_finds_the_best_f_beta(browser, report_path, summary):
    scores = summary["evaluation"]["scores"]
    margins = np.unique(-np.diff(logs_of(scores), axis=1))
    between = zip(margins, [*margins[1:], margins[-1] + 1], strict=True)
    tables = [torch.tensor(decided(scores, [0, (a + b) / 2])) for a, b in between]
    with opened(browser, report_path) as page:
        for exponent in (-3, -1, 0.5, 2, 4):
            metric = ew.metrics.get("f_beta", beta=2.0**exponent, average="binary")
            page.locator("#explorer-beta").fill(str(exponent))
            found = float(metric(torch.tensor(live_matrix(page))))
            assert found == pytest.approx(max(float(metric(table)) for table in tables), abs=1e-9)
            agrees(page, live_matrix(page), 1, "f1")


def test_more_beta_never_means_less_recall(browser, report_path):
    with opened(browser, report_path) as page:
        recalls = []
        for exponent in (-4, -2, 0.5, 2, 4):
            page.locator("#explorer-beta").fill(str(exponent))
            recalls.append(shown(page, "recall"))
    assert recalls == sorted(recalls)
    assert recalls[0] < recalls[-1]


def test_costs_decide_by_the_lowest_expected_cost(browser, report_path, summary):
    scores = summary["evaluation"]["scores"]
    cost = np.array([[0, 1.5], [4, -0.5]])
    with opened(browser, report_path) as page:
        page.check("input[value=cost]")
        for (i, j), value in np.ndenumerate(cost):
            page.locator(f"input[data-row='{i}'][data-column='{j}']").fill(str(value))
        decisions = ew.decisions.cheapest(np.exp(logs_of(scores)).clip(0, 1), cost).numpy()
        confusion = table_of(scores, decisions)
        agrees(page, confusion, 1, "f1")
        expected = float((confusion * cost).sum() / confusion.sum())
        assert shown(page, "cost") == pytest.approx(expected, abs=6e-4)
        assert json.loads(page.locator("#cost-file").inner_text()) == {
            "benign": {"benign": 0, "malignant": 1.5},
            "malignant": {"benign": 4, "malignant": -0.5},
        }


def test_offsets_of_several_classes_and_weights_of_a_sample(browser, digits_path):
    scores = digits_summary()["evaluation"]["scores"]
    assert scores["weights"] is not None
    with opened(browser, digits_path) as page:
        page.check("input[value=offset]")
        agrees(page, decided(scores, scores["offsets"]), 2, "f1_macro")
        page.locator("#offset-1").fill("1.5")
        page.locator("#offset-2").fill("-0.6")
        page.locator("#explorer-class").select_option("0")
        confusion = decided(scores, [0, 1.5, -0.6])
        agrees(page, confusion, 0, "f1_macro")


def test_the_cost_file_of_offsets_decides_as_the_offsets_do(browser, digits_path):
    scores = digits_summary()["evaluation"]["scores"]
    with opened(browser, digits_path) as page:
        page.check("input[value=offset]")
        page.locator("#offset-1").fill("1.5")
        table = json.loads(page.locator("#cost-file").inner_text())
        confusion = live_matrix(page)
    cost = [[table[i][j] for j in ("low", "middle", "high")] for i in ("low", "middle", "high")]
    decisions = ew.decisions.cheapest(np.exp(logs_of(scores)).clip(0, 1), cost).numpy()
    assert table_of(scores, decisions) == pytest.approx(confusion, abs=0.5)


def test_the_command_trains_for_what_is_seen(browser, report_path, summary):
    base, _ = summary["commands"]["train"].split(" --metric")
    with opened(browser, report_path) as page:
        command = page.locator("#explorer-command")
        page.locator("#explorer-beta").fill("2")
        assert command.inner_text() == (
            f"{base} --metric f_beta --prefer recall:malignant=4 --out cancer-model-recall-4"
        )
        page.locator("#explorer-beta").fill("-1")
        page.locator("#explorer-class").select_option("0")
        assert "--prefer precision:benign=2 --out cancer-model-precision-2" in command.inner_text()
        page.check("input[value=cost]")
        assert command.inner_text() == (
            f"{base} --metric expected_cost --cost costs.json --out cancer-model-costs"
        )


@pytest.mark.slow
def test_no_word_of_a_command_is_broken_on_a_phone(browser, report_path):
    lines_of_words = """[...document.querySelectorAll(".command code")].map((code) => {
        const text = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), found = [];
        while (text.nextNode()) for (const match of text.currentNode.data.matchAll(/\\S+/g)) {
            const range = document.createRange();
            range.setStart(text.currentNode, match.index);
            range.setEnd(text.currentNode, match.index + match[0].length);
            found.push([match[0], new Set([...range.getClientRects()].map((box) => box.top)).size]);
        }
        return found;
    }).filter((words) => words.some(([, lines]) => lines > 0))"""
    # Somewhere in this range the end of a line falls into "--out".
    for width in range(340, 420, 10):
        with opened(browser, report_path, width=width) as page:
            commands = page.evaluate(lines_of_words)
            assert len(commands) == 4
            for words in commands:
                assert "eastward" in [word for word, _ in words]
                assert [word for word, lines in words if lines > 1] == []
            assert page.evaluate("document.documentElement.scrollWidth") == width


def test_reset_goes_back_to_the_decision_that_was_trained(browser, report_path, summary):
    with opened(browser, report_path) as page:
        page.locator("#explorer-beta").fill("3")
        assert live_matrix(page).tolist() != summary["evaluation"]["confusion"]
        assert "vs. trained" in page.locator('[data-show="recall-change"]').inner_text()
        page.click("#explorer-reset")
        assert live_matrix(page).tolist() == summary["evaluation"]["confusion"]
        assert page.locator('[data-show="recall-change"]').inner_text() == "as trained"


def test_everything_works_from_the_keyboard(browser, report_path):
    with opened(browser, report_path) as page:
        page.locator("#explorer-beta").focus()
        before = shown(page, "recall")
        for _ in range(20):
            page.keyboard.press("ArrowRight")
        assert shown(page, "recall") > before
        assert page.locator('[data-show="beta"]').inner_text() == "4"
        page.locator("input[name=mode]:checked").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator("#offset-1").is_visible()
        assert not page.locator("#explorer-beta").is_visible()
        page.locator("input[name=shown]:checked").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".confusion .by-row").first.is_visible()
        assert not page.locator(".confusion .by-count").first.is_visible()


def test_the_matrix_is_one_stop_of_the_tab_key_and_arrows_walk_in_it(browser, report_path, summary):
    count = summary["evaluation"]["confusion"][1][0]
    with opened(browser, report_path) as page:
        cells = page.locator(".confusion td")
        assert [cells.nth(n).get_attribute("tabindex") for n in range(4)] == ["0", "-1", "-1", "-1"]
        page.locator("input[name=shown]:checked").focus()
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        status = page.locator("#matrix-status").inner_text()
        assert status.startswith(f"{count} rows of malignant decided as benign")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        page.locator(".confusion td").first.hover()
        assert "rows of benign decided as benign" in page.locator("#matrix-status").inner_text()


@pytest.mark.slow
def test_hostile_names_stay_text_and_commands_stay_quoted(browser, tmp_path):
    path = write_report(hostile_summary(), tmp_path / "report.html")
    with opened(browser, path) as page:
        assert page.locator("h1").inner_text() == "<script>alert(1)</script>"
        assert page.locator("img").count() == 0
        assert page.locator("#live-classes tbody th").all_inner_texts() == CLASSES
        assert page.locator(".columns-table tbody th").all_inner_texts() == CLASSES[:2]
        assert page.locator(".columns-table svg").count() == 1
        for number, name in enumerate(CLASSES):
            page.locator("#explorer-class").select_option(str(number))
            page.locator("#explorer-beta").fill("1")
            words = shlex.split(page.locator("#explorer-command").text_content())
            assert words[:5] == ["eastward", "train", "a b.csv", "--target", "y"]
            assert words[words.index("--prefer") + 1] == f"recall:{name}=2"
        page.check("input[value=cost]")
        assert list(json.loads(page.locator("#cost-file").text_content())) == CLASSES


@pytest.mark.parametrize("size", [2, 3])
def test_metrics_in_the_page_are_those_of_the_library(browser, size):
    source = resources.files("eastward.reporting").joinpath("templates", "decisions.js").read_text()
    table = np.random.default_rng(size).integers(1, 40, (size, size)).astype(float)
    tables = [table, np.diag([3.0, 0, 4][:size]), np.eye(size)[:, ::-1] * 2]
    page = browser.new_page()
    names = [*ew.metrics.names(), "f2_macro", "f0.5_weighted"]
    known = set()
    for confusion in tables:
        cost = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) * 2.0
        call = "((names, c, k) => names.map((name) => metricValue(name, c, k)))"
        values = page.evaluate(
            f"([names, c, k]) => {{ {source}\n return {call}(names, c, k); }}",
            [names, confusion.tolist(), cost.tolist()],
        )
        for name, value in zip(names, values, strict=True):
            if value is None:
                continue
            known.add(name)
            options = {"cost": cost} if name == "expected_cost" else {}
            expected = float(ew.metrics.get(name, **options)(torch.tensor(confusion)))
            assert value == pytest.approx(expected, abs=1e-9), name
    page.close()
    assert {
        "f1_macro",
        "accuracy",
        "balanced_accuracy",
        "matthews_corrcoef",
        "cohen_kappa",
    } <= known
    assert {"geometric_mean", "expected_cost", "jaccard_weighted", "f2_macro"} <= known
    assert ("f1" in known) == (size == 2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_the_page_fits_the_screen_in_light_and_dark_mode(
    browser, report_path, tmp_path, scheme, width
):
    with opened(browser, report_path, width=width, color_scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") == width
        wide, narrow = (page.locator(f"#comparison .{kind}") for kind in ("wide", "narrow"))
        assert (wide.is_visible(), narrow.is_visible()) == (width > 700, width < 700)
        tracks = page.evaluate(
            """[...document.querySelectorAll(".columns, .explorer-grid")].map(
                (grid) => getComputedStyle(grid).gridTemplateColumns.split(" ").length)"""
        )
        assert set(tracks) == {2 if width > 700 else 1}
        picture = Image.open(io.BytesIO(page.screenshot(path=tmp_path / "page.png"))).convert("L")
        brightness = np.asarray(picture).mean()
        assert brightness > 200 if scheme == "light" else brightness < 60
        assert np.asarray(picture).std() > 15
        assert contrast(page, "--text", "--card") > 7
        assert contrast(page, "--soft", "--page") > 4.5
        assert contrast(page, "--strong", "--tint") > 4.5


def ten_classes() -> dict:
    """Ten classes with long names, two of them without rows."""
    rng = np.random.default_rng(0)
    classes = [f"class {'long ' * k}name {k}" for k in range(10)]
    targets = rng.choice(8, 200, p=np.arange(8, 0, -1) / 36) + 1
    logits = rng.normal(size=(200, 10)) + 3 * np.eye(10)[targets]
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    evaluation = evaluation_summary(targets, logs, classes, "f1_macro", n_bootstrap=20)
    return report_summary("Ten", "f1_macro", evaluation=evaluation)


@pytest.mark.parametrize("width", [1200, 400])
def test_the_matrix_uses_the_width_or_says_that_it_scrolls_and_cuts_no_name(
    browser, tmp_path, width
):
    summary = ten_classes()
    path = write_report(summary, tmp_path / "report.html")
    with opened(browser, path, width=width) as page:
        table = "document.querySelector('.confusion table')"
        box = f"{table}.closest('.scroll')"
        assert page.evaluate(f"{table}.offsetWidth >= {box}.clientWidth - 2")
        hint = page.locator(".confusion .scroll-hint")
        assert hint.is_visible() == (width < 700)
        cut = """[...document.querySelectorAll(".matrix th span, .sliders span, #explorer-class")].filter((name) =>
            getComputedStyle(name).textOverflow === "ellipsis" || name.scrollWidth > name.clientWidth + 1)"""
        assert page.evaluate(f"{cut}.length") == 0
        assert page.evaluate("document.documentElement.scrollWidth") == width
        support = [row["support"] for row in summary["evaluation"]["per_class"]]
        assert support[int(page.locator("#explorer-class").input_value())] >= 5


def test_a_model_that_predicts_one_class_is_flagged(browser, tmp_path):
    logs = np.log(np.full((30, 2), [0.9, 0.1]))
    evaluation = evaluation_summary([0] * 20 + [1] * 10, logs, ["no", "yes"], "f1")
    verdict = {"sentence": "Use it.", "detail": [], "recommended": None}
    summary = report_summary(
        "A", "f1", evaluation=evaluation, verdict=verdict, commands={"predict": "eastward predict"}
    )
    with opened(browser, write_report(summary, tmp_path / "report.html")) as page:
        words = page.locator("#verdict").inner_text()
        assert "The model predicts only one class, “no”, for all 30 held-out rows." in words
        assert page.locator("#next-command").inner_text() == "eastward predict"


def contrast(page, front: str, back: str) -> float:
    """Contrast of two colours of the style sheet, as the WCAG defines it."""
    lights = []
    for name in (front, back):
        code = page.evaluate(
            f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()"
        )
        code = code[1:] if len(code) == 7 else "".join(2 * letter for letter in code[1:])
        parts = [int(code[k : k + 2], 16) / 255 for k in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_no_letter_of_a_picture_is_cut_off(browser, summary, tmp_path):
    comparison = {
        **summary["comparison"],
        "methods": [
            {**method, "label": "Wide MMMM words " + "W" * 50}
            for method in summary["comparison"]["methods"]
        ],
    }
    path = write_report({**summary, "comparison": comparison}, tmp_path / "report.html")
    outside = """() => [...document.querySelectorAll("svg.chart")].filter((svg) => svg.getClientRects().length)
        .flatMap((svg) => [...svg.querySelectorAll("text")].filter((text) => {
            const [inner, outer] = [text.getBoundingClientRect(), svg.getBoundingClientRect()];
            return inner.left < outer.left - 1 || inner.right > outer.right + 1;
        })).map((text) => text.textContent)"""
    overlapping = """() => [...document.querySelectorAll("svg.chart")].filter((svg) => svg.getClientRects().length)
        .flatMap((svg) => {
            const boxes = [...svg.querySelectorAll(".label, .value")].map((text) => text.getBoundingClientRect());
            return boxes.filter((a, k) => boxes.slice(k + 1).some((b) => a.left < b.right && b.left < a.right
                && a.top + 3 < b.bottom && b.top + 3 < a.bottom));
        }).length"""
    for width in (1200, 400):
        with opened(browser, path, width=width) as page:
            assert page.evaluate(outside) == []
            assert page.evaluate(overlapping) == 0
            chart = page.locator(f"#comparison .{'wide' if width > 700 else 'narrow'} svg")
            written = "".join(chart.locator("text.label").all_text_contents())
            # A name that is too long for a line goes on in the next; no letter is lost.
            assert "…" not in written
            assert written.count("W") == 51 * len(comparison["methods"])


@pytest.mark.parametrize("width", [1200, 390])
def test_what_is_unfolded_stays_inside_its_card(browser, report_path, width):
    """A wide table scrolls in a box of its own; it does not stick out of the section."""
    sticks_out = """() => [...document.querySelectorAll("section table")].filter((table) => {
        const box = table.closest(".scroll") || table;
        return box.getBoundingClientRect().right > table.closest("section").getBoundingClientRect().right - 1;
    }).map((table) => table.closest("section").id)"""
    with opened(browser, report_path, width=width) as page:
        page.evaluate(
            "document.querySelectorAll('details').forEach((part) => { part.open = true; })"
        )
        assert page.evaluate(sticks_out) == []
        silent = """[...document.querySelectorAll(".scroll")].filter((box) => box.getClientRects().length &&
            (box.scrollWidth > box.clientWidth + 1) === box.previousElementSibling.hidden).length"""
        page.wait_for_function(f"{silent} === 0", timeout=5000)
        matrices = page.locator(".scroll-hint:has(+ .scroll .matrix)")
        assert [hint.is_visible() for hint in matrices.all()] == [False, False]
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_methods_that_were_dropped_early_say_so(browser, summary, tmp_path):
    *others, last = summary["comparison"]["methods"]
    splits = summary["comparison"]["splits"]
    methods = [{**row, "splits": splits} for row in others] + [{**last, "splits": splits - 1}]
    comparison = {**summary["comparison"], "methods": methods}
    path = write_report({**summary, "comparison": comparison}, tmp_path / "report.html")
    with opened(browser, path) as page:
        section = page.locator("#comparison")
        assert section.locator(".tag", has_text=f"{splits - 1} splits").count() == 1
        labels = section.locator(".label", has_text=f"{splits - 1} splits")
        assert [label.is_visible() for label in labels.all()].count(True) == 1
        assert "were dropped early: compare their differences" in section.inner_text()


def test_the_reader_can_choose_the_theme(browser, report_path):
    with opened(browser, report_path, color_scheme="light") as page:
        colour = "getComputedStyle(document.body).backgroundColor"
        before = page.evaluate(colour)
        page.click("#theme")
        assert page.evaluate(colour) != before
        assert page.locator("#theme").inner_text() == "Light"


def test_print_is_light_and_leaves_the_controls_out(browser, report_path):
    with opened(browser, report_path, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert (
            page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        )
        assert not page.locator("#explorer").is_visible()
        assert not page.locator("nav").is_visible()
        assert page.locator("#comparison svg.chart").first.is_visible()
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_reduced_motion_is_respected(browser, report_path):
    with opened(browser, report_path, reduced_motion="reduce") as page:
        assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_without_scripts_everything_but_the_explorer_is_there(browser, report_path):
    with opened(browser, report_path, java_script_enabled=False) as page:
        assert page.locator("#verdict").is_visible()
        assert page.locator("#comparison svg.chart").first.is_visible()
        assert not page.locator("#explorer").is_visible()
        assert "needs JavaScript" in page.locator("noscript").inner_text()
        page.check("input[name=shown][value=column]")
        assert page.locator(".confusion .by-column").first.is_visible()


def test_a_command_can_be_copied(browser, report_path, summary):
    with opened(browser, report_path, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.locator("button[data-copy=command-1]").click()
        page.get_by_text("Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == summary["commands"]["train"]
