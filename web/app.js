/* What the pages of pacer serve share: the address that holds their state, requests, the line at
 * the top, keys. A page is {draw(main, address), poll() -> seconds until the next, leave()}. */
"use strict";
globalThis.pacerApp = (function (view) {
    const el = view.el;
    const app = { pages: {}, chosen: new Set(), names: new Map() };

    /* --- the address: #/run/ID?x=tokens --- */

    app.address = function () {
        const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
        const [page, id] = path.split("/");
        return { page: page || "list", id: id || "", state: Object.fromEntries(new URLSearchParams(query || "")) };
    };
    app.link = function (page, id, state) {
        const kept = Object.entries(state || {}).filter(([, value]) => value !== "" && value !== null && value !== undefined);
        const query = new URLSearchParams(kept).toString();
        return "#/" + (page === "list" ? "" : page) + (id ? "/" + id : "") + (query ? "?" + query : "");
    };
    /* The state of this page changes its address, but not the history. */
    app.keep = function (state) {
        const { page, id } = app.address();
        history.replaceState(null, "", app.link(page, id, state));
    };

    /* --- requests --- */

    app.get = async function (path) {
        const reply = await fetch(path, { cache: "no-store", credentials: "same-origin" });
        const body = (reply.headers.get("Content-Type") || "").startsWith("application/json")
            ? await reply.json() : { error: (await reply.text()).trim() };
        if (!reply.ok) {
            throw new Error(body.error || "status " + reply.status);
        }
        return body;
    };

    /* --- one page after the other --- */

    const main = el("main", { id: "main", tabindex: "-1" });
    const trail = el("span", { class: "trail" });
    const problem = el("p", { class: "caution", role: "status", hidden: true });
    let current = null, timer = 0, turn = 0;

    async function poll(mine) {
        clearTimeout(timer);
        let wait = 2;
        try {
            wait = document.hidden ? 5 : await current.poll();
            if (mine === turn) {
                problem.hidden = true;
            }
        } catch (error) {
            if (mine !== turn) {
                return;
            }
            wait = 3;
            problem.textContent = error instanceof TypeError
                ? "The server does not answer; it may have ended. This page shows what it last said." : error.message;
            problem.hidden = false;
        }
        if (mine === turn && wait !== null) {
            timer = setTimeout(() => poll(mine), 1000 * wait);
        }
    }
    app.go = function () {
        const address = app.address();
        const make = app.pages[address.page] || app.pages.list;
        turn++;
        problem.hidden = true;
        main.replaceChildren();
        app.setTitle("");
        current = make(main, address);
        poll(turn);
    };
    app.again = () => poll(turn);
    app.setTitle = function (title) {
        document.title = title ? title + " · pacer" : "pacer";
        trail.textContent = title;
    };

    /* --- keys and the line at the top --- */

    const keys = [["/", "search the list"], ["l", "to the list"], ["o", "lay the chosen runs over each other"],
        ["x", "choose none"], ["t", "light or dark"], ["?", "these keys"],
        ["Tab", "to the next link, button or chart"], ["← →", "in a chart: to the side"],
        ["+ − 0", "in a chart: closer, further, all of it"]];
    const help = el("dialog", { "aria-label": "keys" }, el("h2", {}, "Keys"),
        el("dl", {}, keys.map(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])),
        el("button", { type: "button", on: { click: () => help.close() } }, "close"));
    app.overlay = function () {
        if (app.chosen.size > 0) {
            location.hash = app.link("compare", "", { runs: [...app.chosen].join(",") });
        }
    };
    addEventListener("keydown", function (event) {
        const typing = event.target.closest("input:not([type=checkbox]):not([type=range]), select, textarea, dialog");
        if (typing || event.ctrlKey || event.metaKey || event.altKey) {
            return;
        }
        const act = {
            "/": () => (document.querySelector("input[type=search]") || main).focus(),
            l: () => (location.hash = "#/"),
            o: app.overlay,
            x: () => {
                app.chosen.clear();
                app.go();
            },
            t: view.toggleTheme,
            "?": () => help.showModal(),
        }[event.key];
        if (act) {
            event.preventDefault();
            act();
        }
    });

    app.start = function () {
        document.getElementById("app").replaceChildren(
            el("header", { class: "top" }, el("a", { class: "brand", href: "#/" }, "pacer"),
                el("nav", { "aria-label": "place" }, trail),
                el("button", { type: "button", class: "theme", title: "light or dark (t)",
                    on: { click: view.toggleTheme } }, "light / dark"),
                el("button", { type: "button", title: "keys (?)", "aria-label": "keys",
                    on: { click: () => help.showModal() } }, "?")),
            problem, main, help);
        addEventListener("hashchange", app.go);
        document.addEventListener("visibilitychange", () => !document.hidden && app.again());
        app.go();
    };

    app.stateMark = (state) => el("span", { class: "state " + state.replace(/ /g, "-") }, state);
    app.shortName = (name) => name.split("/").slice(-1)[0] || name;
    return app;
})(globalThis.pacerView);
