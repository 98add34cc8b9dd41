"use strict";
(function (view) {
    view.linesBlock = (block) => view.el("figure", {}, view.el("figcaption", {}, block.title));
    view.curvesBlock = () => view.el("figure", {});
})(globalThis.pacerView);
