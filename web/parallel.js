"use strict";
(function (view) {
    view.parallelBlock = () => view.el("figure", {});
})(globalThis.pacerView);
