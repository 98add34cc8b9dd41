/* Bars and stacks as rows of text and colour: labels have room at any width, and a reader without
 * colours has the numbers. */
"use strict";
(function (view) {
    const el = view.el;

    /* Share of the width for a value, from zero or, with a log axis, from below the least. */
    function scale(values, log) {
        const positive = values.filter((x) => view.known(x) && (!log || x > 0));
        const most = Math.max(...positive, log ? 1e-300 : 0), least = Math.min(...positive);
        if (!log) {
            return (x) => (view.known(x) && most > 0 ? Math.max(0, x / most) : 0);
        }
        const from = Math.log(least) - 0.15 * (Math.log(most / least) || 1);
        return (x) => (view.known(x) && x > 0 ? (Math.log(x) - from) / (Math.log(most) - from || 1) : 0);
    }

    /* Peers are grey, every second one striped, so that they are told apart. */
    function paint(node, series, one, index) {
        const peer = one.peer ? series.slice(0, index).filter((other) => other.peer).length : 0;
        node.style.backgroundColor = one.peer ? view.neutral : view.colour(one.colour ?? index);
        node.classList.toggle("striped", peer % 2 === 1);
        return node;
    }

    function bar(share, title) {
        const node = el("span", { class: "bar", title });
        node.style.width = 100 * Math.min(Math.max(share, 0), 1) + "%";
        return node;
    }

    function whisker(low, high) {
        const node = el("span", { class: "whisker", "aria-hidden": "true" });
        node.style.left = 100 * Math.max(low, 0) + "%";
        node.style.width = 100 * Math.max(Math.min(high, 1) - Math.max(low, 0), 0) + "%";
        return node;
    }

    view.barsBlock = function (block) {
        const series = block.series || [], stacked = block.kind === "stack";
        const format = (y) => (block.format ? block.format(y) : block.percent ? view.percent(y) : view.short(y));
        const at = (one, category) => one.points.find((point) => point[0] === category);
        const known = (one, category) => {
            const point = at(one, category);
            return point && view.known(point[1]) ? point[1] : 0;
        };
        const reach = stacked
            ? block.categories.map((name, i) => series.reduce((sum, one) => sum + known(one, i), 0))
            : series.flatMap((one) => one.points.map((point) => (point[1] ?? NaN) + (point[2] || 0)));
        const share = scale(reach, block.log_y && !stacked);
        const row = (category, name) => (stacked
            ? el("div", { class: "track" },
                el("span", { class: "stack" }, series.map((one, index) => paint(bar(share(known(one, category)),
                    one.label + ": " + format(known(one, category))), series, one, index))),
                el("span", { class: "value" }, format(reach[category])))
            : series.map(function (one, index) {
                const point = at(one, category);
                if (!point) {
                    return null;
                }
                return el("div", { class: "track" },
                    el("span", { class: "stack" },
                        paint(bar(share(point[1]), one.label + ", " + name), series, one, index),
                        point[2] > 0 ? whisker(share(point[1] - point[2]), share(point[1] + point[2])) : null),
                    el("span", { class: "value" }, view.known(point[1]) ? format(point[1]) : "not measured"));
            }));
        return el("figure", { class: "chart bars", "data-name": block.name },
            view.caption(block.title, () => view.seriesRows(series, block.x_title, (x) => block.categories[x])),
            block.y_title ? el("p", { class: "axis-title" }, block.y_title +
                (block.x_title ? " by " + block.x_title : "") + (block.log_y && !stacked ? " (log scale)" : "")) : null,
            series.length > 1 ? el("div", { class: "legend" }, series.map((one, index) => {
                const swatch = paint(el("span", { class: "swatch", "aria-hidden": "true" }), series, one, index);
                return el("span", { class: "series" }, swatch, el("span", { class: "label" }, one.label));
            })) : null,
            el("div", { class: "rows" }, (block.categories || []).map((name, category) =>
                el("div", { class: "row" }, el("div", { class: "name" }, name),
                    el("div", { class: "tracks" }, row(category, name))))));
    };
})(globalThis.pacerView);
