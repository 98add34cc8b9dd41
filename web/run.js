/* A run as it goes, and an experiment. */
"use strict";
(function (app, view) {
    const el = view.el;

    /* New rows behind those that stay. */
    function merge(old, fresh) {
        const columns = {};
        for (const [name, values] of Object.entries(fresh)) {
            if (name !== "at") {
                columns[name] = (old && old[name] ? old[name].slice(0, fresh.at) : []).concat(values);
            }
        }
        return columns;
    }

    function figures(run) {
        const left = run.seconds_left;
        const list = [
            ["loss", view.loss(run.loss), view.known(run.grad_norm) ? "gradient norm " + view.short(run.grad_norm) : ""],
            ["validation loss", view.loss(run.val_loss), view.known(run.best_val_loss)
                ? "best " + view.loss(run.best_val_loss) + (view.known(run.best_val_step) ? " at " + view.count(run.best_val_step) : "") : ""],
            ["step", view.count(run.step), view.known(run.total) ? "of " + view.count(run.total) : ""],
            ["tokens", view.short(run.tokens), view.known(run.lr) ? "learning rate " + view.short(run.lr) : ""],
            ["tokens/s", view.short(run.tok_s), view.known(run.ms) ? view.short(run.ms) + " ms per step" : ""],
            !run.live && view.known(run.wall_s) ? ["took", view.duration(run.wall_s), "from its start"]
                : ["time left", view.known(left) ? view.duration(left) : "–", view.known(left) ? "until " + new Date(1000 * (run.now + left)).toLocaleTimeString() : ""],
            ["memory", view.bytes(run.resident ?? run.peak_bytes), view.known(run.planned_bytes)
                ? (view.known(run.resident) ? "of the process; " : "") + "planned " + view.bytes(run.planned_bytes) : ""],
        ];
        if (view.known(run.mfu)) {
            list.push(["use of the machine", view.percent(run.mfu), "of its arithmetic"]);
        }
        return list.map(([label, number, more]) => el("div", { class: "figure" }, el("div", { class: "label" }, label),
            el("div", { class: "number" }, number), more ? el("div", { class: "more" }, more) : null));
    }

    function warnings(run) {
        const list = [];
        if (run.state === "dead") {
            list.push("Its process is gone without an end being recorded.");
        }
        if (run.state === "silent") {
            list.push("No line for " + view.duration(run.silent) + ", and its process is not visible from here.");
        }
        if (run.reason) {
            list.push(run.reason);
        }
        if (run.not_finite) {
            list.push(view.count(run.not_finite) + " lines have a loss that is not a number.");
        }
        if (run.odd_lines) {
            list.push(view.count(run.odd_lines) + " lines of its record cannot be read.");
        }
        if (run.failed_checks) {
            list.push(view.count(run.failed_checks) + " of its self-checks failed: pacer check says which.");
        }
        return list.map((text) => el("p", { class: "caution" }, text));
    }

    const phasesBlock = (phases) => view.barsBlock({ kind: "bars", name: "phases", title: "Where the time went",
        format: view.duration, categories: Object.keys(phases), series: [{ label: "seconds", colour: 0,
            points: Object.values(phases).map((seconds, index) => [index, seconds]) }] });

    /* Small charts beside the loss: [column, title, format]. */
    const beside = [["tok_s", "Tokens per second", view.short], ["lr", "Learning rate", view.short],
        ["grad_norm", "Gradient norm", view.short]];

    app.pages.run = function (main, { id, state }) {
        const head = el("div"), notes = el("div"), numbers = el("div", { class: "figures" }), bar = el("span");
        const progress = el("div", { class: "progress" }, bar), curve = el("div"), small = el("div", { class: "pair" });
        const phases = el("div"), samples = el("div"), options = el("div"), reading = el("p", { class: "note", hidden: true });
        main.append(head, notes, progress, numbers, reading, curve, small, phases, samples, options);
        let lines = null, validation = null, from = "", val = "", curves = null, asked = false, sampled = -1, phased = "";
        const charts = new Map();

        function drawCurves(run) {
            const runs = [{ id, label: app.shortName(run.name), points: lines, validation, flop_per_step: run.flop_per_step }];
            if (curves === null) {
                curves = view.curves(runs, state, (next) => app.keep(next));
                curve.append(curves.element);
            } else {
                curves.update(runs);
            }
            for (const [name, title, format] of beside) {
                const points = lines.step.map((step, i) => [step, lines[name][i]]).filter((point) => view.known(point[1]));
                const series = [{ label: title.toLowerCase(), colour: 0, points }];
                if (charts.has(name)) {
                    charts.get(name).update(series);
                } else if (points.length > 1) {
                    const chart = view.lineChart(series, { title, x_title: "steps", format, from_zero: name !== "lr" });
                    chart.element.classList.add("small");
                    charts.set(name, chart);
                    small.append(chart.element);
                }
            }
        }
        async function once(run) {
            if (!asked) {
                asked = true;
                const block = await app.get("api/options?runs=" + id);
                options.replaceChildren(el("h2", {}, "Options"), view.optionsBlock(block));
            }
            if (run.samples && sampled !== run.step) {
                sampled = run.step;
                const block = await app.get("api/samples/" + id);
                samples.replaceChildren(el("h2", {}, "Samples"), view.block({ type: "samples", samples: block.samples.reverse() }));
            }
        }
        return { poll: async function () {
            const run = await app.get("api/run/" + id + "?from=" + encodeURIComponent(from) + "&val=" + encodeURIComponent(val));
            if (!main.contains(head)) {
                return null;
            }
            lines = merge(lines, run.lines);
            validation = merge(validation, run.validation);
            ({ from, val } = run);
            app.setTitle(run.title || run.name);
            head.replaceChildren(el("div", {}, el("h1", {}, run.title || run.name),
                run.title ? el("p", { class: "subtitle" }, run.name) : null,
                el("p", { class: "subtitle" }, app.stateMark(run.state),
                    ["", run.model, view.known(run.parameters) ? view.short(run.parameters) + " parameters" : "", run.device,
                        run.dtype, run.data, "last line " + view.age(run.now - run.wrote),
                        view.known(run.saved_step) ? "saved at step " + view.count(run.saved_step) : ""]
                        .filter((text, index) => index === 0 || text).join(" · "))));
            notes.replaceChildren(...warnings(run), ...(run.resume
                ? [el("p", { class: "note" }, "To go on:"), el("code", { class: "command" }, run.resume)] : []));
            progress.hidden = !(run.total > 0);
            bar.style.width = Math.min(100 * (run.step || 0) / (run.total || 1), 100) + "%";
            numbers.replaceChildren(...figures(run));
            reading.hidden = !run.behind;
            reading.textContent = "Reading its record: " + view.count(run.step) + " steps so far.";
            drawCurves(run);
            if (run.phases && phased !== JSON.stringify(run.phases)) {
                phased = JSON.stringify(run.phases);
                phases.replaceChildren(phasesBlock(run.phases));
            }
            await once(run);
            return run.behind ? 0.05 : run.live ? 1 : 10;
        } };
    };

    app.pages.experiment = function (main, { id }) {
        const body = el("div", { class: "pacer-view" }), runs = el("div", { class: "runs" });
        let shown = "";
        /* Its runs are entries of the list that lie in it. */
        async function drawRuns() {
            const list = await app.get("api/list");
            const own = list.entries.filter((entry) => entry.parent === id && entry.kind === "run")
                .sort((a, b) => (a.title || a.name).localeCompare(b.title || b.name, "en", { numeric: true }));
            const ids = own.slice(0, 200).map((entry) => entry.id).join(",");
            runs.replaceChildren(...(own.length === 0 ? ["No run has begun."]
                : [own.length > 1 ? el("p", {}, el("a", { href: app.link("compare", "", { runs: ids }) }, "Lay its " + own.length + " runs over each other")) : "",
                    el("details", {}, el("summary", {}, "Single runs (" + own.length + ")"),
                        el("ul", {}, own.map((entry) => el("li", {}, el("a", { href: app.link("run", entry.id) },
                            entry.title || app.shortName(entry.name))))))]));
        }
        return { poll: async function () {
            const block = await app.get("api/experiment/" + id);
            const text = JSON.stringify(block);
            if (text !== shown) { /* what the reader has unfolded stays as long as nothing changes */
                shown = text;
                view.show(body, block);
                main.replaceChildren(body);
                body.querySelector("header").after(runs);
                app.setTitle(block.title || "experiment");
                await drawRuns();
            }
            return 10;
        } };
    };
})(globalThis.pacerApp, globalThis.pacerView);
