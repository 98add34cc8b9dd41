/* Several runs over each other, and the options in which they differ. */
"use strict";
(function (app, view) {
    const el = view.el;
    app.pages.compare = function (main, { state }) {
        const ids = (state.runs || "").split(",").filter((id) => /^[0-9a-f]{16}$/.test(id));
        const place = el("div"), table = el("div"), options = el("div");
        const count = el("p", { class: "subtitle" });
        main.append(el("h1", {}, "Runs over each other"), count, place, table, options);
        app.setTitle("overlay");
        if (ids.length === 0) {
            count.textContent = "No run is named in the address. Choose some in the list.";
            return { poll: async () => null };
        }
        let curves = null, asked = false;

        /* Labels as short as they can be: what the experiment calls them, or their names without the
         * folders that all have in common. */
        function shorten(runs) {
            const titles = new Set(runs.map((run) => run.title));
            if (titles.size === runs.length && !titles.has("") && !titles.has(undefined)) {
                runs.forEach((run) => {
                    run.full = run.label;
                    run.label = run.title;
                });
                return runs;
            }
            const parts = runs.map((run) => run.label.split("/"));
            let common = 0;
            while (parts.every((list) => list.length > common + 1 && list[common] === parts[0][common])) {
                common++;
            }
            runs.forEach((run, index) => {
                run.full = run.label;
                run.label = parts[index].slice(common).join("/");
            });
            return runs;
        }
        const last = (points) => {
            const known = ((points && points.loss) || []).filter(view.known);
            return known.length > 0 ? known[known.length - 1] : null;
        };
        function drawTable(runs) {
            const best = (points) => {
                const known = ((points && points.loss) || []).filter(view.known);
                return known.length > 0 ? Math.min(...known) : null;
            };
            const rows = runs.map(function (run) {
                const loss = last(run.points) ?? run.final;
                const steps = run.points.step[run.points.step.length - 1], values = [null, null, steps, loss,
                    last(run.validation), best(run.validation)];
                return { values, cells: [el("a", { href: app.link("run", run.id), title: run.full }, run.label), app.stateMark(run.state),
                    view.count(values[2]), view.loss(values[3]), view.loss(values[4]), view.loss(values[5])] };
            });
            table.replaceChildren(view.sortable([{ title: "run" }, { title: "state" }, { title: "steps", numeric: true },
                { title: "loss", numeric: true }, { title: "val. loss", numeric: true }, { title: "best val.", numeric: true }],
            rows, sort));
        }
        const sort = { column: null, descending: false };
        return { poll: async function () {
            const reply = await app.get("api/curves?runs=" + ids.join(","));
            if (!main.contains(place)) {
                return null;
            }
            const runs = shorten(reply.runs).sort((a, b) => a.label.localeCompare(b.label, "en", { numeric: true }));
            count.textContent = runs.length + (runs.length === 1 ? " run" : " runs") +
                (runs.length < ids.length ? "; " + (ids.length - runs.length) + " of those named are not in the folders served" : "");
            if (curves === null) {
                curves = view.curves(runs, state, (next) => app.keep(next));
                place.append(curves.element);
            } else {
                curves.update(runs);
            }
            drawTable(runs);
            if (!asked) {
                asked = true;
                const block = await app.get("api/options?runs=" + runs.map((run) => run.id).join(","));
                block.columns = shorten(block.columns.map((label, i) => ({ label, title: block.titles[i] }))).map((one) => one.label);
                options.replaceChildren(el("h2", {}, "Options that differ"), view.optionsBlock(block));
            }
            return reply.behind ? 0.05 : reply.live ? 3 : null;
        } };
    };
    app.start();
})(globalThis.pacerApp, globalThis.pacerView);
