/* Parallel coordinates: a line for each run across one axis per quantity. The colour follows the
 * last axis, whose least is blue and greatest orange. */
"use strict";
(function (view) {
    const el = view.el, svg = view.svg;
    const HEIGHT = 274, TOP = 48, BOTTOM = 26, SIDE = 56, LEAST = 110;

    function scale(axis, index, lines) {
        const values = lines.map((line) => line.values[index]).filter((x) => view.known(x) && (!axis.log || x > 0));
        const to = axis.log ? Math.log : (x) => x;
        const low = Math.min(...values), high = Math.max(...values);
        return { low, high, any: values.length > 0,
            place: (x) => (!view.known(x) || (axis.log && x <= 0) ? null
                : high > low ? (to(x) - to(low)) / (to(high) - to(low)) : 0.5) };
    }

    /* "Peak memory (bytes)" as its two parts, and how its numbers read. */
    function partsOf(title) {
        const [, name, unit] = /^(.*?)(?: \(([^()]*)\))?$/.exec(title);
        const bytes = unit === "bytes";
        return { name, unit: bytes ? "" : unit || "", format: bytes ? view.bytes : view.short };
    }
    const shortened = (text) => (text.length > 16 ? text.slice(0, 15) + "…" : text);

    function mix(share) {
        const from = [59, 130, 196], to = [217, 119, 6];
        return share === null ? view.neutral
            : "rgb(" + from.map((a, i) => Math.round(a + share * (to[i] - a))).join(",") + ")";
    }

    view.parallelBlock = function (block) {
        const axes = block.axes || [], lines = block.lines || [];
        const scales = axes.map((axis, index) => scale(axis, index, lines));
        const parts = axes.map((axis) => partsOf(axis.title));
        const box = el("div", { class: "scroll parallel", tabindex: "0", role: "region",
            "aria-label": "parallel coordinates" });
        const about = el("p", { class: "readout" }, lines.length + " runs; point at a line, or press up and down");
        let chosen = -1;
        function choose(index) {
            chosen = index;
            const line = lines[index];
            about.textContent = line ? line.label + ": " + parts.map((part, i) => part.name + " " +
                part.format(line.values[i]) + (part.unit ? " " + part.unit : "")).join(", ") : lines.length + " runs; point at a line, or press up and down";
            box.querySelectorAll("path").forEach((path) =>
                path.classList.toggle("chosen", Number(path.dataset.line) === index));
            box.firstChild.classList.toggle("choosing", Boolean(line));
        }
        function draw() {
            const width = Math.max(box.clientWidth, axes.length * LEAST);
            const x = (i) => (axes.length > 1 ? SIDE + (width - 2 * SIDE) * i / (axes.length - 1) : width / 2);
            const y = (share) => HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
            const last = scales.length - 1;
            box.replaceChildren(svg("svg", { width, height: HEIGHT, viewBox: "0 0 " + width + " " + HEIGHT, role: "img" },
                lines.map(function (line, index) {
                    let path = "", open = false;
                    line.values.forEach(function (value, i) {
                        const share = scales[i].place(value);
                        path += share === null ? "" : (open ? "L" : "M") + x(i) + " " + y(share);
                        open = share !== null;
                    });
                    return svg("path", { d: path, "data-line": index, stroke: mix(scales[last].place(line.values[last])),
                        on: { pointerenter: () => choose(index), pointerleave: () => choose(-1) } });
                }),
                axes.map((axis, i) => svg("g", { class: "axis", transform: "translate(" + x(i) + ",0)" },
                    svg("line", { y1: TOP, y2: HEIGHT - BOTTOM }),
                    svg("text", { y: 12, class: "title" }, shortened(parts[i].name), svg("title", {}, axis.title)),
                    svg("text", { y: 27 }, shortened(parts[i].unit)),
                    svg("text", { y: TOP - 6 }, scales[i].any ? parts[i].format(scales[i].high) : ""),
                    svg("text", { y: HEIGHT - BOTTOM + 16 }, scales[i].any ? parts[i].format(scales[i].low) : "")))));
            choose(chosen);
        }
        box.addEventListener("keydown", function (event) {
            if (event.key === "ArrowDown" || event.key === "ArrowUp") {
                event.preventDefault();
                const step = event.key === "ArrowDown" ? 1 : -1;
                choose(((chosen < 0 && step < 0 ? 0 : chosen) + step + lines.length) % lines.length);
            }
        });
        view.keepDrawn(box, draw);
        return el("figure", { class: "chart" }, view.caption("All runs across their settings and results",
            () => [["run", ...axes.map((axis) => axis.title)], ...lines.map((line) => [line.label, ...line.values])]),
            box, about);
    };
})(globalThis.pacerView);
