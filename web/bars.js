"use strict";
(function (view) {
    view.barsBlock = (block) => view.el("figure", {}, view.el("figcaption", {}, block.title));
})(globalThis.pacerView);
