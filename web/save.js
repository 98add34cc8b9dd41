/* What is shown as a file: numbers as CSV, a chart as a picture with its title, axes and legend. */
"use strict";
(function (view) {
    const el = view.el;
    const GAP = 16, LINE = 20; /* pixels of a picture */

    function download(name, blob) {
        const address = URL.createObjectURL(blob);
        const link = el("a", { href: address, download: name });
        document.body.append(link);
        link.click();
        link.remove();
        setTimeout(() => URL.revokeObjectURL(address), 60000);
    }
    const fileName = (title, ending) =>
        "pacer-" + (title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "data") + ending;

    /* Rows of texts and numbers; what is missing is empty. */
    view.csv = function (rows) {
        const cell = (value) => {
            const text = typeof value === "number" ? (isFinite(value) ? String(value) : "") : String(value ?? "");
            return /[",\r\n]/.test(text) ? "\"" + text.replaceAll("\"", "\"\"") + "\"" : text;
        };
        return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
    };

    /* A row for each x that any of the series has. */
    view.seriesRows = function (series, x_title, formatX) {
        const places = new Map(), bands = series.map((one) => one.points.some((point) => view.known(point[2])));
        const width = series.length + bands.filter(Boolean).length;
        const heads = [x_title || "x"];
        series.forEach((one, index) => heads.push(one.label, ...(bands[index] ? [one.label + " (half width)"] : [])));
        let at = 1;
        series.forEach(function (one, index) {
            for (const [x, y, half] of one.points) {
                if (!places.has(x)) {
                    places.set(x, [formatX ? formatX(x) : x, ...new Array(width).fill("")]);
                }
                places.get(x)[at] = y;
                if (bands[index]) {
                    places.get(x)[at + 1] = half;
                }
            }
            at += bands[index] ? 2 : 1;
        });
        return [heads, ...[...places.keys()].sort((a, b) => a - b).map((x) => places.get(x))];
    };

    /* The chart as it is seen, on its own ground. */
    function picture(figure) {
        const plot = figure.querySelector(".plot"), style = getComputedStyle(figure);
        const entries = [...figure.querySelectorAll(".legend .series[aria-pressed=\"true\"]")];
        const width = plot.clientWidth + 2 * GAP, scale = 2;
        const canvas = el("canvas"), pen = canvas.getContext("2d");
        const font = (size, weight) => (weight || 400) + " " + size + "px " + style.fontFamily;
        pen.font = font(13);
        const places = []; /* of the legend, in lines */
        let x = GAP, row = 0;
        for (const entry of entries) {
            const text = entry.innerText.replace(/\s+/g, " "), room = pen.measureText(text).width + 24 + GAP;
            if (x > GAP && x + room > width) {
                x = GAP;
                row++;
            }
            places.push([entry, text, x, row]);
            x += room;
        }
        const top = GAP + 2 * LINE + 8, below = top + plot.clientHeight + LINE + 8;
        const height = below + (places.length > 0 ? (row + 1) * LINE : 0) + GAP / 2;
        canvas.width = scale * width;
        canvas.height = scale * height;
        pen.scale(scale, scale);
        pen.fillStyle = getComputedStyle(document.body).backgroundColor;
        pen.fillRect(0, 0, width, height);
        pen.textBaseline = "middle";
        const write = (text, left, y, ink, size, weight, align) => {
            pen.fillStyle = ink;
            pen.font = font(size, weight);
            pen.textAlign = align || "left";
            pen.fillText(text, left, y);
        };
        const soft = view.ink("--soft"), ink = view.ink("--text"), box = plot.getBoundingClientRect();
        const textOf = (selector) => (figure.querySelector(selector) || { textContent: "" }).textContent;
        write(textOf("figcaption .title"), GAP, GAP + LINE / 2, ink, 15, 600);
        write(textOf(".axis-title.y"), GAP, GAP + 1.5 * LINE, soft, 13);
        plot.querySelectorAll("canvas").forEach((one) => pen.drawImage(one, GAP, top, plot.clientWidth, plot.clientHeight));
        plot.querySelectorAll(".dygraph-axis-label").forEach(function (label) {
            const range = document.createRange();
            range.selectNodeContents(label);
            const place = range.getBoundingClientRect();
            write(label.textContent, GAP + place.left - box.left, top + place.top - box.top + place.height / 2, soft, 12);
        });
        write(textOf(".axis-title.x"), width / 2, top + plot.clientHeight + LINE / 2, soft, 13, 400, "center");
        for (const [entry, text, left, line] of places) {
            const y = below + line * LINE + LINE / 2, stroke = entry.querySelector("line");
            pen.strokeStyle = stroke.getAttribute("stroke");
            pen.lineWidth = 3;
            pen.setLineDash((stroke.getAttribute("stroke-dasharray") || "").split(" ").filter(Boolean).map(Number));
            pen.beginPath();
            pen.moveTo(left, y);
            pen.lineTo(left + 18, y);
            pen.stroke();
            write(text, left + 24, y, ink, 13);
        }
        return canvas;
    }

    /* Title and, beside it, what saves the figure. rows(): for CSV; drawn: it has a canvas. */
    view.caption = function (title, rows, drawn) {
        const button = (text, what, act) => el("button", { type: "button", class: "save", title: what, on: { click: act } }, text);
        const caption = el("figcaption", {}, el("span", { class: "title" }, title || ""), el("span", { class: "saves" },
            drawn ? button("PNG", "save as a picture", () => picture(caption.parentElement).toBlob((blob) =>
                download(fileName(caption.firstChild.textContent, ".png"), blob))) : null,
            button("CSV", "save its numbers", () => download(fileName(caption.firstChild.textContent, ".csv"),
                new Blob([view.csv(rows())], { type: "text/csv" })))));
        return caption;
    };
})(globalThis.pacerView);
