/* What every part of a page uses: elements, numbers as text, colours, what the browser keeps.
 * Text of records reaches a page as text nodes alone. */
"use strict";
globalThis.pacerView = globalThis.pacerView || {};
(function (view) {
    const SVG = "http://www.w3.org/2000/svg";

    /* An element with attributes and children; text is never markup. `on`: handlers by event. */
    function fill(node, attributes, children) {
        for (const [name, value] of Object.entries(attributes || {})) {
            if (name === "on") {
                for (const [event, handler] of Object.entries(value)) {
                    node.addEventListener(event, handler);
                }
            } else if (value === true) {
                node.setAttribute(name, "");
            } else if (value !== undefined && value !== null && value !== false) {
                node.setAttribute(name, value);
            }
        }
        for (const child of children.flat(Infinity)) {
            if (child !== null && child !== undefined && child !== false) {
                node.append(child);
            }
        }
        return node;
    }
    view.el = (tag, attributes, ...children) =>
        fill(document.createElement(tag), attributes, children);
    view.svg = (tag, attributes, ...children) =>
        fill(document.createElementNS(SVG, tag), attributes, children);

    /* The colours of all of pacer's charts (src/report/plot_gnuplot.c). */
    const palette = ["#3b82c4", "#d97706", "#2e9e5b", "#d1495b", "#8e6bbf",
        "#1898a8", "#a0764c", "#c75a9b", "#7f8f1f", "#6f8790"];
    view.colour = (index) => palette[((index % palette.length) + palette.length) % palette.length];
    view.neutral = "#87929b";

    /* --- numbers --- */

    const known = (x) => typeof x === "number" && isFinite(x);
    view.known = known;

    /* 4 significant digits at most, large numbers with a suffix: 1.23k, 4.56M. */
    view.short = function (x) {
        if (!known(x)) {
            return "–";
        }
        const size = Math.abs(x);
        if (size !== 0 && (size < 1e-4 || size >= 1e18)) {
            return x.toExponential(2).replace("e+", "e");
        }
        for (const [limit, suffix] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
            if (size >= limit) {
                return String(Number((x / limit).toPrecision(4))) + suffix;
            }
        }
        return String(Number(x.toPrecision(4)));
    };
    view.count = (x) => (known(x) ? Math.round(x).toLocaleString("en-US") : "–");
    view.loss = (x) => (known(x) ? x.toFixed(Math.abs(x) < 1 ? 4 : 3) : "–");
    view.percent = (x) => (known(x) ? (100 * x).toFixed(1) + " %" : "–");
    view.bytes = function (x) {
        if (!known(x) || x < 0) {
            return "–";
        }
        const units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let i = 0;
        while (x >= 1024 && i < units.length - 1) {
            x /= 1024;
            i++;
        }
        return (i === 0 ? String(x) : x.toPrecision(3)) + " " + units[i];
    };
    view.duration = function (s) {
        if (!known(s) || s < 0) {
            return "–";
        }
        if (s < 1) {
            return (s < 0.0095 ? Number((1000 * s).toPrecision(2)) : Math.round(1000 * s)) + " ms";
        }
        if (s < 60) {
            return s.toFixed(s < 10 ? 1 : 0) + " s";
        }
        const minutes = Math.floor(s / 60);
        if (minutes < 60) {
            return minutes + " min " + String(Math.floor(s % 60)).padStart(2, "0") + " s";
        }
        const hours = Math.floor(minutes / 60);
        return hours < 48 ? hours + " h " + String(minutes % 60).padStart(2, "0") + " min"
            : Math.floor(hours / 24) + " d " + (hours % 24) + " h";
    };
    /* Whole units, one of them: 7 s, 3 min. */
    view.since = (s) => (!known(s) ? "–" : s < 1 ? "now" : s < 10 ? Math.floor(s) + " s"
        : view.duration(s).replace(/(?<=.) \d+ (s|min|h)$/, ""));
    view.age = (s) => view.since(s) + (s >= 1 ? " ago" : "");

    /* --- what the browser keeps; a page opened from a file may have no storage --- */

    view.recall = function (name) {
        try {
            return localStorage.getItem("pacer-" + name);
        } catch (error) {
            return null;
        }
    };
    view.remember = function (name, value) {
        try {
            localStorage.setItem("pacer-" + name, value);
        } catch (error) {
            /* the choice then lasts as long as the page */
        }
    };

    /* --- light and dark: as the system says, unless the reader chose --- */

    view.redraws = new Set(); /* functions to call when colours or sizes change */
    view.setTheme = function (theme) {
        if (theme === "light" || theme === "dark") {
            document.documentElement.dataset.theme = theme;
        } else {
            delete document.documentElement.dataset.theme;
        }
        view.remember("theme", theme || "");
        view.redraw();
    };
    view.isDark = () => document.documentElement.dataset.theme === "dark" ||
        (document.documentElement.dataset.theme !== "light" &&
            matchMedia("(prefers-color-scheme: dark)").matches);
    view.toggleTheme = () => view.setTheme(view.isDark() ? "light" : "dark");
    view.redraw = function () {
        for (const draw of [...view.redraws]) {
            draw();
        }
    };
    view.ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    view.setTheme(view.recall("theme"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.redraw());
    let resized = 0;
    addEventListener("resize", () => {
        clearTimeout(resized);
        resized = setTimeout(view.redraw, 100);
    });

    /* Calls draw now and whenever it has to be done again, until its element has left the page. */
    view.keepDrawn = function (element, draw) {
        let shown = false;
        const again = function () {
            if (element.isConnected) {
                shown = true;
                draw();
            } else if (shown) {
                view.redraws.delete(again);
            }
        };
        view.redraws.add(again);
        requestAnimationFrame(again);
    };
})(globalThis.pacerView);
