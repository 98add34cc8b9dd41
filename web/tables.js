/* Tables that sort by any column, and the table of options. */
"use strict";
(function (view) {
    const el = view.el;

    /* Missing values come last in either direction; texts by their letters and numbers. */
    function compare(a, b, descending) {
        const sign = descending ? -1 : 1;
        if (view.known(a) && view.known(b)) {
            return sign * (a - b);
        }
        if (view.known(a) !== view.known(b)) {
            return view.known(a) ? -1 : 1;
        }
        return sign * String(a ?? "").localeCompare(String(b ?? ""), "en", { numeric: true });
    }

    /* What is short stays on its line: a model's name is no sentence, and a wide table scrolls. */
    const whole = (cell) => (typeof cell !== "string" || cell.length <= 24 ? " whole" : "");

    const labelOf = (column) => (column.unit ? column.title + " (" + column.unit + ")" : column.title);

    view.sortRows = function (columns, rows, sort) {
        const column = columns[sort.column];
        if (!column) {
            return rows;
        }
        const key = (row) => (row.values && view.known(row.values[sort.column])
            ? row.values[sort.column] : column.numeric ? null : textOf(row.cells[sort.column]));
        return rows.map((row, index) => [key(row), index, row])
            .sort((a, b) => compare(a[0], b[0], sort.descending) || a[1] - b[1]).map((item) => item[2]);
    };

    /* columns: [{title, numeric, unit; class, plain: does not sort, descending: does so first}], rows: [{cells, values, ...}] with cells as text or
     * elements. sort: {column, descending}, kept; changed: called after a click. */
    view.sortable = function (columns, rows, sort, changed) {
        const body = el("tbody");
        const heads = columns.map(function (column, index) {
            const button = el("button", { type: "button", class: "sort", "data-key": "sort-" + index }, labelOf(column));
            button.addEventListener("click", function () {
                const again = sort.column === index;
                sort.descending = again ? !sort.descending : Boolean(column.descending);
                sort.column = index;
                draw();
                if (changed) {
                    changed();
                }
            });
            return el("th", { scope: "col", class: classOf(column) },
                column.plain ? column.title : button);
        });
        function draw() {
            const order = view.sortRows(columns, rows, sort);
            heads.forEach(function (head, index) {
                head.setAttribute("aria-sort", sort.column !== index ? "none"
                    : sort.descending ? "descending" : "ascending");
            });
            body.replaceChildren(...order.map((row) => el("tr", row.attributes,
                columns.map((column, i) => el("td", { class: classOf(column) + whole(row.cells[i]) },
                    row.cells[i] ?? "")))));
        }
        draw();
        return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table" },
            el("table", {}, el("thead", {}, el("tr", {}, heads)), body));
    };
    const classOf = (column) =>
        [column.numeric ? "number" : "", column.class || ""].join(" ").trim() || null;
    const textOf = (cell) => (cell instanceof Node ? cell.textContent : cell);

    view.tableBlock = (block) => el("figure", { class: "table" },
        view.caption(block.title, () => [(block.columns || []).map(labelOf), ...(block.rows || []).map((row) =>
            row.cells.map((cell, i) => (row.values && view.known(row.values[i]) ? row.values[i] : cell)))]),
        view.sortable(block.columns || [], block.rows || [], { column: null, descending: false }),
        (block.notes || []).map((note) => el("p", { class: "note" }, note)));

    /* Options of runs side by side, those that differ first and the others folded away. */
    view.optionsBlock = function (block) {
        const rows = block.rows || [];
        const side = (list) => el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "options" },
            el("table", { class: "options" },
                el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "option"),
                    block.columns.map((label) => el("th", { scope: "col" }, label)))),
                el("tbody", {}, list.map((row) => el("tr", { class: row.differs ? "differs" : null },
                    el("th", { scope: "row" }, row.name),
                    row.values.map((value) => el("td", {}, value)))))));
        const differing = rows.filter((row) => row.differs);
        const same = rows.filter((row) => !row.differs);
        return el("section", { class: "options" },
            differing.length > 0 ? side(differing)
                : block.columns.length > 1 ? el("p", { class: "note" }, "No option differs.") : null,
            same.length > 0 ? el("details", {},
                el("summary", {}, block.columns.length > 1 ? "Options that are equal (" + same.length + ")"
                    : differing.length > 0 ? "Options that were not given (" + same.length + ")"
                        : "Options (" + same.length + ")"), side(same)) : null);
    };
})(globalThis.pacerView);
