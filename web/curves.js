/* Loss curves of several runs over each other, with a choice of axes and smoothing. */
"use strict";
(function (view) {
    const el = view.el;
    const AXES = [["step", "steps"], ["tokens", "tokens"], ["seconds", "seconds of training"], ["flop", "FLOP"]];
    const MANY = 250; /* points, from which on a curve is smoothed unless the reader says otherwise */
    let number = 0;

    /* The x of a run's points: its own column, or FLOP by the steps. */
    function column(run, points, name) {
        if (points && points[name]) {
            return points[name];
        }
        return name === "flop" && points && points.step && view.known(run.flop_per_step)
            ? points.step.map((step) => step * run.flop_per_step) : null;
    }

    /* A mean whose weights fall off exponentially to both sides, so that it lags behind nothing. Its
     * width is up to a tenth of the curve: the same strength means the same part of a long curve and
     * of a short one. Of a curve that the server has thinned, a point's fourth number is the mean of
     * what it stands for. */
    view.smooth = function (points, strength) {
        const span = strength ** 3 * points.length / 10, share = span / (1 + span);
        if (share <= 0) {
            return points;
        }
        const value = points.map((point) => (view.known(point[3]) ? point[3] : point[1]));
        const sums = new Float64Array(points.length), weights = new Float64Array(points.length);
        for (const backward of [false, true]) {
            let sum = 0, weight = 0;
            for (let k = 0; k < points.length; k++) {
                const i = backward ? points.length - 1 - k : k;
                sums[i] += backward ? share * sum : 0; /* the point itself counts once */
                weights[i] += backward ? share * weight : 0;
                if (view.known(value[i])) {
                    sum = share * sum + value[i];
                    weight = share * weight + 1;
                } else {
                    sum *= share;
                    weight *= share;
                }
                sums[i] += backward ? 0 : sum;
                weights[i] += backward ? 0 : weight;
            }
        }
        return points.map((point, i) => (view.known(value[i]) ? [point[0], sums[i] / weights[i], point[2]] : point));
    };

    function pointsOf(run, points, axis) {
        const x = column(run, points, axis);
        return x && points.loss ? x.map((place, i) =>
            [place, points.loss[i], undefined, points.mean && points.mean[i]]).filter((p) => view.known(p[0])) : [];
    }

    /* Updates of different sizes: steps are no common measure, and tokens are known of all. */
    function tokensFit(runs) {
        const ends = runs.map((run) => [column(run, run.points, "step"), column(run, run.points, "tokens")]
            .map((values) => (values && values.length > 0 ? values[values.length - 1] : null)));
        const each = ends.filter(([step, tokens]) => step > 0 && tokens > 0).map(([step, tokens]) => tokens / step);
        return runs.length > 1 && each.length === runs.length && Math.max(...each) > 1.5 * Math.min(...each);
    }

    /* state: {x, logx, logy, smooth, val}, texts as in an address; changed(state): after a choice.
     * {element, update(runs)}. */
    view.curves = function (runs, state, changed) {
        const id = "curves-" + ++number;
        const has = (axis) => runs.some((run) => column(run, run.points, axis) || column(run, run.validation, axis));
        const longest = Math.max(0, ...runs.map((run) => ((run.points && run.points.loss) || []).length));
        state = Object.assign({ x: tokensFit(runs) ? "tokens" : "step", logx: "0", logy: "0", smooth: longest > MANY ? "0.6" : "0", val: runs.length > 6 ? "0" : "1" }, state);
        const choice = el("select", { id: id + "-x", on: { change: () => choose({ x: choice.value }) } },
            AXES.map(([name, title]) => el("option", { value: name }, title)));
        const box = (name, title) => {
            const input = el("input", { type: "checkbox", id: id + "-" + name, class: "set-" + name,
                on: { change: () => choose({ [name]: input.checked ? "1" : "0" }) } });
            input.checked = state[name] === "1";
            return el("label", { for: id + "-" + name }, input, " " + title);
        };
        const slider = el("input", { type: "range", id: id + "-s", min: "0", max: "1", step: "0.01", class: "set-smooth",
            on: { input: () => choose({ smooth: slider.value }) } });
        slider.value = state.smooth;
        function choose(what) {
            Object.assign(state, what);
            draw();
            if (changed) {
                changed(state);
            }
        }
        const tools = el("div", { class: "choices" },
            el("label", { for: id + "-x" }, "over "), choice,
            box("logx", "log x"), box("logy", "log y"), box("val", "validation"),
            el("label", { for: id + "-s" }, "smooth ", slider));
        function series() {
            const smooth = Number(state.smooth) || 0, list = [];
            const alone = runs.length === 1;
            runs.forEach(function (run, index) {
                const name = alone ? "training" : run.label;
                const train = pointsOf(run, run.points, state.x);
                const cycle = Math.floor(index / 10);
                if (train.length > 0 && smooth > 0 && runs.length <= 3) {
                    list.push({ label: name, colour: index, points: train, faint: true, cycle });
                }
                if (train.length > 0) {
                    list.push({ label: name, colour: index, points: view.smooth(train, smooth), cycle,
                        thin: runs.length > 12, markers: train.length === 1 });
                }
                const validation = state.val === "1" ? pointsOf(run, run.validation, state.x) : [];
                if (validation.length > 0) {
                    list.push({ label: alone ? "validation" : name + ", validation", colour: alone ? index + 1 : index,
                        points: validation, dashed: !alone, markers: validation.length < 60 });
                }
            });
            return list;
        }
        const settings = (list) => ({ end: state.logx === "1" ? null : view.flatEnd(list.filter((one) => !one.faint)), log_x: state.logx === "1", log_y: state.logy === "1", format: view.loss,
            x_title: AXES.find(([name]) => name === state.x)[1], y_title: "loss (nats per token)", title: "Loss" });
        let chart = null;
        function draw() {
            for (const option of choice.options) {
                option.disabled = !has(option.value);
            }
            if (!AXES.some(([name]) => name === state.x) || (runs.length > 0 && !has(state.x))) {
                state.x = "step";
            }
            choice.value = state.x;
            const list = series(), now = settings(list), axis = now.x_title + now.log_x;
            if (chart === null) {
                chart = view.lineChart(list, Object.assign(now, { tools }));
            } else {
                if (axis !== chart.axis) {
                    chart.window = null; /* a part of another axis */
                }
                chart.update(list, now);
            }
            chart.axis = axis;
        }
        draw();
        return { element: chart.element, update: (next) => {
            runs = next;
            draw();
        } };
    };
    view.curvesBlock = (block) => view.curves(block.runs || [], {}, null).element;
})(globalThis.pacerView);
