/* A document as a page: pacerView.show(element, {title, subtitle, blocks}). Each kind of block
 * has a function here or in the files before this one. */
"use strict";
(function (view) {
    const el = view.el;

    const blocks = {
        text: (block) => el("p", {}, block.text),
        heading: (block) => el("h2", {}, block.text),
        findings: (block) => el("section", { class: "findings" },
            el("ol", {}, (block.findings || []).map((finding) => el("li", {},
                el("p", {}, finding.text),
                finding.evidence ? el("details", {}, el("summary", {}, "evidence"),
                    el("p", { class: "note" }, finding.evidence)) : null))),
            block.cautions ? el("p", { class: "caution" }, block.cautions) : null),
        table: (block) => view.tableBlock(block),
        chart: (block) => (block.kind === "lines" ? view.linesBlock(block) : view.barsBlock(block)),
        curves: (block) => view.curvesBlock(block),
        parallel: (block) => view.parallelBlock(block),
        options: (block) => view.optionsBlock(block),
        samples: (block) => el("section", { class: "samples" },
            (block.samples || []).map((sample) => el("figure", { class: "sample" },
                el("figcaption", {}, "step " + view.count(sample.step)),
                sample.text.trim() ? el("pre", {}, sample.text.trimEnd()) : el("p", { class: "note" }, "nothing but white space")))),
        details: (block) => el("details", {}, el("summary", {}, block.title),
            (block.blocks || []).map(view.block)),
    };

    /* One block; one that cannot be shown says so in its place and leaves the others alone. */
    view.block = function (block) {
        try {
            if (!Object.hasOwn(blocks, block.type)) {
                throw new Error("a newer pacer made it: " + block.type);
            }
            return blocks[block.type](block);
        } catch (error) {
            return el("p", { class: "caution" }, "This part cannot be shown (" + error.message + ").");
        }
    };

    view.show = function (element, document_) {
        if (document_.title) {
            document.title = document_.title;
        }
        element.classList.add("pacer-view");
        element.replaceChildren(
            el("header", {},
                el("h1", {}, document_.title || ""),
                document_.subtitle ? el("p", { class: "subtitle" }, document_.subtitle) : null),
            ...(document_.blocks || []).map(view.block));
    };
})(globalThis.pacerView);
