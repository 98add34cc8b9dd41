/* Charts of lines, over dygraphs: zoom by dragging, values under the pointer, series that can be
 * switched off. */
"use strict";
(function (view) {
    const el = view.el;
    const CELLS = 150000; /* of rows times series, beyond which points are put on a grid */
    const GRID = 2500;    /* places of it */
    const DASHES = [null, [7, 3], [2, 3]];
    const PEERS = [[5, 3], [2, 2], [9, 3, 2, 3]]; /* all are grey */
    const FLAT = 0.15; /* of a curve's fall, within which it is flat */
    const FEW = 16; /* places of points that are the labels of their axis */
    const charts = new Set();

    /* Its legend makes markup from text and sets styles that a strict policy refuses. */
    if (typeof Dygraph !== "undefined" && Array.isArray(Dygraph.PLUGINS)) {
        Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);
    }

    /* Charts that have left the page are let go. */
    function sweep() {
        for (const chart of charts) {
            if (chart.shown && !chart.plot.isConnected) {
                chart.graph.destroy();
                charts.delete(chart);
            }
        }
    }

    /* Rows for dygraphs: [x, y of series 0, y of series 1, ...], null where a series has no point.
     * With many different x, points are put on a grid of the part that is shown. */
    function makeRows(series, banded, window_, logX) {
        const all = new Set();
        for (const one of series) {
            for (const point of one.points) {
                all.add(point[0]);
            }
        }
        let place = (x) => x;
        if (all.size * series.length > CELLS) {
            const to = logX ? Math.log : (x) => x;
            const from = logX ? Math.exp : (x) => x;
            let low = Infinity, high = -Infinity;
            for (const x of all) {
                low = Math.min(low, x);
                high = Math.max(high, x);
            }
            low = to(window_ ? Math.max(low, window_[0]) : low);
            high = to(window_ ? Math.min(high, window_[1]) : high);
            const width = (high - low) / GRID || 1;
            place = (x) => from(low + Math.round(
                Math.min(Math.max((to(x) - low) / width, -2), GRID + 2)) * width);
        }
        const rows = new Map();
        series.forEach(function (one, index) {
            for (const [x, y, half] of one.points) {
                if (!view.known(x) || (logX && x <= 0)) {
                    continue;
                }
                const at = place(x);
                let row = rows.get(at);
                if (!row) {
                    row = new Array(series.length + 1).fill(banded ? [null, null, null] : null);
                    row[0] = at;
                    rows.set(at, row);
                }
                const value = view.known(y) ? y : NaN;
                row[index + 1] = banded ? [value - (half || 0), value, value + (half || 0)] : value;
            }
        });
        return [...rows.values()].sort((a, b) => a[0] - b[0]);
    }

    /* The point of a series at or before x, else its first. */
    function pointAt(points, x) {
        let low = 0, high = points.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (points[middle][0] <= x) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return points[Math.max(low - 1, 0)];
    }

    /* From where on most of the curves are flat (src/report/plot.c): {from}; null where the second
     * half of one would be out of sight. */
    view.flatEnd = function (series) {
        let low = Infinity, high = -Infinity, half = Infinity, falling = 0;
        const flats = [];
        for (const one of series) {
            const known = one.points.filter((point) => view.known(point[0]) && view.known(point[1]));
            if (known.length > 0) {
                low = Math.min(low, known[0][0]);
                high = Math.max(high, known[known.length - 1][0]);
                half = Math.min(half, (known[0][0] + known[known.length - 1][0]) / 2);
            }
            const last = known.length > 0 ? known[known.length - 1][1] : 0, fall = known.length > 0 ? known[0][1] - last : 0;
            let from = known.length;
            while (fall > 0 && from > 0 && known[from - 1][1] <= last + FLAT * fall) {
                from--;
            }
            falling += fall > 0 ? 1 : 0;
            if (fall > 0 && from < known.length) {
                flats.push(known[from][0]);
            }
        }
        const flat = flats.filter((x) => x <= (low + high) / 2), from = Math.max(...flat);
        return flat.length > 0 && 2 * flat.length >= falling && from > low && from <= half ? { from } : null;
    };

    const colourOf = (one, index) =>
        (one.peer ? view.neutral : view.colour(one.colour ?? index)) + (one.faint ? "40" : "");

    /* The dashes of a series: null is a whole line. Colours that come again are dashed. */
    function patternOf(one, series) {
        const peers = series.filter((other) => other.peer);
        const cycle = one.cycle ?? Math.floor(Math.max(one.colour ?? series.indexOf(one), 0) / 10);
        return one.peer ? PEERS[peers.indexOf(one) % PEERS.length]
            : one.dashed ? [5, 3] : DASHES[Math.min(cycle, 2)];
    }

    /* {element, update(series, options)}: a chart of series [{label, colour, dashed, markers, peer,
     * points: [[x, y, half]]}] with ascending x; one that is faint is drawn behind that of its label. options: log_x, log_y, from_zero, percent,
     * x_title, y_title, title, end, format(y), formatX(x), tools, zoomed(window). */
    view.lineChart = function (series, options) {
        const chart = { graph: null, shown: false, window: null, atEnd: false, hidden: new Set(), under: null };
        const plot = el("div", { class: "plot", tabindex: "0", role: "img",
            "aria-label": options.title || "chart" });
        chart.plot = plot;
        const legend = el("div", { class: "legend" });
        const where = el("span", { class: "where" });
        const all = el("button", { type: "button", class: "all", on: { click: () => zoom(null) } }, "all of it");
        const end = el("button", { type: "button", class: "end", on: { click: () => zoom("end") } }, "its end");
        const x_title = el("div", { class: "axis-title x" });
        const y_title = el("div", { class: "axis-title y" });
        const caption = view.caption(options.title, () => view.seriesRows(listed().filter((one) =>
            !chart.hidden.has(one.label)), options.x_title, options.formatX), typeof Dygraph !== "undefined");
        const figure = el("figure", { class: "chart lines" }, caption,
            el("div", { class: "tools" }, options.tools || null, end, all, where),
            y_title, plot, x_title, legend);
        const format = (y) => (options.format ? options.format(y)
            : options.percent ? view.percent(y) : view.short(y));
        const formatX = (x) => (options.formatX ? options.formatX(x) : view.short(x));
        const listed = () => series.filter((one) => !one.faint); /* a faint one goes with its label */
        const banded = () => series.some((one) => one.points.some((point) => view.known(point[2])));

        function extent() {
            let low = Infinity, high = -Infinity;
            for (const one of series) {
                for (const point of one.points) {
                    if (view.known(point[0]) && (!options.log_x || point[0] > 0)) {
                        low = Math.min(low, point[0]);
                        high = Math.max(high, point[0]);
                    }
                }
            }
            return low < high ? [low, high] : [low === Infinity ? 0 : low - 0.5, low === Infinity ? 1 : low + 0.5];
        }
        /* The places of points, where they are few: these are the values that were tried. */
        function fewPlaces() {
            const places = new Set();
            for (const one of series) {
                for (const point of one.points) {
                    places.add(point[0]);
                    if (places.size > FEW) {
                        return null;
                    }
                }
            }
            return [...places].filter((x) => view.known(x) && (!options.log_x || x > 0)).sort((a, b) => a - b);
        }
        /* Labels at the points, as many as have room; lines at all of them. */
        function ticksAt(low, high, pixels) {
            const to = options.log_x ? Math.log : (x) => x;
            const at = (x) => pixels * (to(x) - to(low)) / (to(high) - to(low) || 1);
            const places = (fewPlaces() || []).filter((x) => x >= low && x <= high);
            const name = (x) => (Number.isInteger(x) && x < 1e5 && !options.formatX ? String(x) : String(formatX(x)));
            const room = (x) => 7 * name(x).length + 10;
            let free = -Infinity, last = places.length > 0 ? at(places[places.length - 1]) - room(places[places.length - 1]) / 2 : 0;
            return places.map(function (x, index) {
                const end = index === places.length - 1, half = room(x) / 2;
                const shown = end || (at(x) - half >= free && at(x) + half <= last);
                free = shown ? at(x) + half : free;
                return { v: x, label: shown ? name(x) : "" };
            });
        }
        /* A little more, so that points at the edges are seen whole. */
        function padded() {
            const [low, high] = extent();
            const more = options.log_x ? (high / low) ** 0.012 : 0.012 * (high - low);
            return options.log_x ? [low / more, high * more] : [low - more, high + more];
        }
        function endWindow() {
            const [low, high] = extent();
            return options.end && options.end.from > low && options.end.from < high
                ? [options.end.from, padded()[1]] : null;
        }
        function zoom(window_) {
            chart.atEnd = window_ === "end";
            chart.window = chart.atEnd ? endWindow() : window_;
            draw();
            if (options.zoomed) {
                options.zoomed(chart.window);
            }
        }
        function showWindow() {
            const last = endWindow();
            end.hidden = !last || Boolean(chart.window && chart.window[0] === last[0]);
            all.hidden = !chart.window;
            plot.dataset.zoomed = String(Boolean(chart.window));
        }
        function showValues() {
            const x = chart.under;
            where.textContent = x === null ? "" : (options.x_title || "x") + " " + formatX(x);
            legend.querySelectorAll(".value").forEach(function (cell, index) {
                const one = listed()[index];
                const point = one && one.points.length > 0
                    ? x === null ? one.points[one.points.length - 1] : pointAt(one.points, x) : null;
                cell.textContent = !point || !view.known(point[1]) ? ""
                    : format(point[1]) + (view.known(point[2]) ? " ± " + format(Number(point[2].toPrecision(2))) : "");
            });
        }
        function drawLegend() {
            legend.replaceChildren(...listed().map(function (one) {
                const swatch = view.svg("svg", { class: "swatch", width: 18, height: 8, "aria-hidden": "true" },
                    view.svg("line", { x1: 0, y1: 4, x2: 18, y2: 4, "stroke-width": 3,
                        stroke: colourOf(one, series.indexOf(one)), "stroke-dasharray": (patternOf(one, series) || []).join(" ") || null }));
                return el("button", { type: "button", class: "series",
                    "aria-pressed": String(!chart.hidden.has(one.label)),
                    on: { click: () => toggle(one.label) } },
                swatch, el("span", { class: "label" }, one.label), el("span", { class: "value" }));
            }));
            legend.classList.toggle("many", listed().length > 12);
            showValues();
        }
        function toggle(label) {
            if (!chart.hidden.delete(label)) {
                chart.hidden.add(label);
            }
            draw();
        }
        function graphOptions(rows, banded_) {
            const line = view.ink("--line"), window_ = chart.window || padded();
            const perSeries = {};
            series.forEach(function (one, index) {
                perSeries["s" + index] = {
                    color: colourOf(one, index),
                    strokeWidth: one.faint ? 1 : one.thin ? 1.3 : 2,
                    strokePattern: patternOf(one, series),
                    drawPoints: Boolean(one.markers), pointSize: 2.5,
                };
            });
            return {
                file: rows.length > 0 ? rows : [[0, ...series.map(() => (banded_ ? [null, null, null] : null))]],
                labels: ["x", ...series.map((one, index) => "s" + index)],
                series: perSeries, customBars: banded_, fillAlpha: 0.15,
                visibility: series.map((one) => !chart.hidden.has(one.label)),
                colors: series.map(colourOf),
                connectSeparatedPoints: true, legend: "never", drawGrid: true, gridLineColor: line,
                gridLineWidth: 1, axisLineColor: line, includeZero: Boolean(options.from_zero),
                logscale: Boolean(options.log_y), dateWindow: window_, valueRange: null,
                labelsKMB: false, highlightCircleSize: 3, xRangePad: 4, yRangePad: 6,
                hideOverlayOnMouseOut: true, animatedZooms: false,
                axes: {
                    x: Object.assign({ logscale: Boolean(options.log_x), axisLabelFormatter: formatX,
                        valueFormatter: formatX, pixelsPerLabel: plot.clientWidth < 480 ? 50 : 70, axisLabelWidth: 70 },
                    fewPlaces() ? { ticker: ticksAt } : {}),
                    y: { axisLabelFormatter: (y) => (options.percent ? format(y) : view.short(y)), valueFormatter: (y) => format(y),
                        pixelsPerLabel: 34, axisLabelWidth: 54 },
                },
                highlightCallback: function (event, x) {
                    chart.under = x;
                    showValues();
                },
                unhighlightCallback: function () {
                    chart.under = null;
                    showValues();
                },
                zoomCallback: function (low, high) {
                    const [least, most] = extent();
                    chart.atEnd = false;
                    chart.window = low <= least && high >= most ? null : [low, high];
                    showWindow();
                    if (chart.gridded) {
                        draw();
                    }
                    if (options.zoomed) {
                        options.zoomed(chart.window);
                    }
                },
            };
        }
        function draw() {
            const banded_ = banded();
            x_title.textContent = options.x_title || "";
            y_title.textContent = options.y_title || "";
            showWindow();
            if (typeof Dygraph === "undefined" || !plot.isConnected) {
                return;
            }
            const rows = makeRows(series, banded_, chart.window, options.log_x);
            chart.gridded = rows.length * series.length > CELLS / 2;
            const settings = graphOptions(rows, banded_);
            const shape = series.length + ":" + banded_ + ":" + Boolean(options.log_x) + ":" + Boolean(options.log_y);
            if (chart.graph && chart.shape !== shape) {
                chart.graph.destroy(); /* dygraphs keeps labels and scales of the first */
                chart.graph = null;
            }
            chart.shape = shape;
            if (chart.graph) {
                chart.graph.resize();
                chart.graph.updateOptions(settings);
            } else {
                const file = settings.file;
                delete settings.file;
                chart.graph = new Dygraph(plot, file, settings);
                chart.shown = true;
                charts.add(chart);
            }
        }
        plot.addEventListener("keydown", function (event) {
            const [low, high] = chart.window || extent(), to = options.log_x ? Math.log : (x) => x;
            const from = options.log_x ? Math.exp : (x) => x;
            const a = to(Math.max(low, options.log_x ? Number.MIN_VALUE : -Infinity)), b = to(high), width = b - a;
            const next = { ArrowLeft: [a - width / 4, b - width / 4], ArrowRight: [a + width / 4, b + width / 4],
                "+": [a + width / 4, b - width / 4], "-": [a - width / 2, b + width / 2] }[event.key];
            if (next) {
                event.preventDefault();
                const [least, most] = extent();
                const window_ = [Math.max(from(next[0]), least), Math.min(from(next[1]), most)];
                zoom(window_[0] <= least && window_[1] >= most ? null : window_);
            } else if (event.key === "0") {
                zoom(null);
            }
        });
        chart.element = figure;
        /* The end of curves that are flat there, all of others. */
        chart.showEnd = function () {
            chart.window = endWindow();
            chart.atEnd = chart.window !== null;
        };
        chart.update = function (next, changed) {
            series = next;
            Object.assign(options, changed || {});
            chart.window = chart.atEnd ? endWindow() : chart.window;
            caption.firstChild.textContent = options.title || "";
            drawLegend();
            draw();
        };
        if (typeof Dygraph === "undefined") {
            plot.replaceWith(el("p", { class: "note" }, "No chart: this build of pacer was made without " +
                "dygraphs (package libjs-dygraphs). The values are those at the end."));
        }
        chart.showEnd();
        drawLegend();
        sweep();
        view.keepDrawn(figure, draw);
        return chart;
    };

    view.linesBlock = function (block) {
        const categories = block.categories && block.categories.length > 0 ? block.categories : null;
        return view.lineChart(block.series, Object.assign({}, block, {
            formatX: categories ? (x) => categories[Math.round(x)] ?? "" : null,
        })).element;
    };
})(globalThis.pacerView);
