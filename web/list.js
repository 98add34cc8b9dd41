/* The list of all runs and experiments: search, states, sorting, several chosen to be compared. */
"use strict";
(function (app, view) {
    const el = view.el;
    const ROWS = 300; /* shown at first */

    const columns = [
        { title: "", plain: true },
        { title: "name", class: "name" },
        { title: "state" },
        { title: "model", class: "wide" },
        { title: "progress", numeric: true, class: "wide", descending: true },
        { title: "loss", numeric: true },
        { title: "val. loss", numeric: true, class: "wide" },
        { title: "tokens/s", numeric: true, class: "wide", descending: true },
        { title: "age", numeric: true },
    ];
    const AGE = columns.length - 1;

    function nameCell(entry) {
        const parts = entry.name.split("/");
        const last = entry.title || parts[parts.length - 1];
        const folder = entry.kind === "experiment" && entry.title ? "" : parts.slice(0, -1).join("/").replace(/\/runs$/, "");
        return el("a", { href: app.link(entry.kind, entry.id), "data-key": "link-" + entry.id, title: entry.name },
            folder ? el("span", { class: "folder" }, folder + "/") : null, last,
            entry.reason ? el("span", { class: "reason" }, entry.reason.slice(0, 200)) : null);
    }

    app.pages.list = function (main, address) {
        const state = address.state;
        let entries = [], version = "", now = 0, full = false, most = ROWS;
        const sort = { column: state.sort === undefined ? AGE : Number(state.sort), descending: state.desc === "1" };
        const search = el("input", { type: "search", placeholder: "search name, model, state", "aria-label": "search",
            on: { input: () => choose({ q: search.value }) } });
        search.value = state.q || "";
        const kinds = el("select", { "aria-label": "kind", on: { change: () => choose({ kind: kinds.value }) } },
            [["", "runs and experiments"], ["run", "runs"], ["experiment", "experiments"]].map(([value, text]) =>
                el("option", { value }, text)));
        kinds.value = state.kind || "";
        const states = el("span", { class: "filters", role: "group", "aria-label": "states" });
        const table = el("div", { class: "list" });
        const count = el("p", { class: "note", role: "status" });
        const more = el("button", { type: "button", on: { click: () => {
            most = Infinity;
            draw();
        } } }, "show all");
        const bar = el("div", { class: "chosen-bar" });
        main.append(el("h1", {}, "Runs and experiments"), el("div", { class: "filters" }, search, kinds, states),
            count, table, more, bar);

        function choose(what) {
            Object.assign(state, what);
            keep();
            most = ROWS;
            draw();
        }
        function keep() {
            state.sort = sort.column === AGE && !sort.descending ? "" : String(sort.column);
            state.desc = sort.descending ? "1" : "";
            app.keep(state);
        }
        function drawStates() {
            const counts = new Map();
            entries.forEach((entry) => counts.set(entry.state, (counts.get(entry.state) || 0) + 1));
            if (state.state && !counts.has(state.state)) {
                counts.set(state.state, 0);
            }
            states.replaceChildren(...[...counts].sort().map(([name, number]) => el("button", {
                type: "button", class: "state " + name.replace(/ /g, "-"), "data-key": "state-" + name,
                "aria-pressed": String(state.state === name),
                on: { click: () => choose({ state: state.state === name ? "" : name }) } }, name + " " + number)));
        }
        function drawBar() {
            bar.hidden = app.chosen.size === 0;
            bar.replaceChildren(el("span", {}, app.chosen.size + (app.chosen.size === 1 ? " run" : " runs") + " chosen"),
                el("button", { type: "button", class: "primary", "data-key": "overlay", on: { click: app.overlay } },
                    "lay over each other (o)"),
                el("button", { type: "button", on: { click: () => {
                    app.chosen.clear();
                    draw();
                } } }, "none (x)"));
        }
        function row(entry) {
            const box = entry.kind === "run" ? el("input", { type: "checkbox", "data-key": "box-" + entry.id,
                "aria-label": "choose " + entry.name, on: { change: () => {
                    app.chosen[box.checked ? "add" : "delete"](entry.id);
                    drawBar();
                } } }) : null;
            if (box) {
                box.checked = app.chosen.has(entry.id);
            }
            const runs = entry.kind === "experiment" ? " runs" : "";
            const progress = view.known(entry.step)
                ? view.count(entry.step) + (view.known(entry.total) ? " / " + view.count(entry.total) : "") + runs : "";
            const age = now - entry.wrote;
            return { attributes: { "data-id": entry.id },
                cells: [box, nameCell(entry), app.stateMark(entry.state),
                    entry.kind === "experiment" ? "experiment" : entry.model, progress,
                    view.known(entry.loss) ? view.loss(entry.loss) : "", view.known(entry.val_loss) ? view.loss(entry.val_loss) : "",
                    view.known(entry.tok_s) ? view.short(entry.tok_s) : "", view.since(age)],
                values: [null, null, null, null, entry.total > 0 ? entry.step / entry.total : entry.step, entry.loss,
                    entry.val_loss, entry.tok_s, age] };
        }
        function draw() {
            const words = (state.q || "").toLowerCase().split(/\s+/).filter(Boolean);
            const shown = entries.filter((entry) => (!state.state || entry.state === state.state) &&
                (!state.kind || entry.kind === state.kind) && words.every((word) =>
                (entry.name + " " + entry.model + " " + entry.state + " " + (entry.title || "")).toLowerCase().includes(word)));
            const focused = document.activeElement && document.activeElement.dataset.key;
            const rows = shown.map(row);
            const visible = rows.length <= most ? rows : sorted(rows).slice(0, most);
            table.replaceChildren(view.sortable(columns, visible, sort, () => {
                keep();
                draw();
            }));
            drawStates();
            drawBar();
            more.hidden = rows.length <= most;
            more.textContent = "show all " + rows.length;
            count.textContent = entries.length === 0 && version !== "" ? "No runs in these folders yet. They appear here as they start."
                : shown.length + " of " + entries.length + (full ? "; there are more than can be listed: serve fewer folders" : "");
            const again = focused && main.querySelector("[data-key=\"" + CSS.escape(focused) + "\"]");
            if (again && document.activeElement !== again) {
                again.focus({ preventScroll: true });
            }
        }
        /* Time goes on where nothing else has changed. */
        function drawAges() {
            const wrote = new Map(entries.map((entry) => [entry.id, entry.wrote]));
            table.querySelectorAll("tr[data-id]").forEach((line) => {
                line.lastChild.textContent = view.since(now - wrote.get(line.dataset.id));
            });
        }
        /* The same order as the table's, for what is cut off to be its end. */
        function sorted(rows) {
            return view.sortRows(columns, rows, sort);
        }
        return { poll: async function () {
            const reply = await app.get("api/list" + (version ? "?seen=" + encodeURIComponent(version) : ""));
            now = reply.now;
            if (reply.entries && main.contains(table)) {
                ({ entries, version, full } = reply);
                app.names = new Map(entries.map((entry) => [entry.id, entry.name]));
                draw();
            } else {
                drawAges();
            }
            return 2;
        } };
    };
})(globalThis.pacerApp, globalThis.pacerView);
