"use strict";
// Draws what grader/report/timeline_page.py decided. Strings from a run only become text.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const app = document.getElementById("app");
  const NS = "http://www.w3.org/2000/svg";
  const ROW = 26, TOP = 26, PAD = 14, LANE_HEAD = 22;
  let scale = 1, chosen = -1, followed = data.follow;

  const make = (name, attributes, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const draw = (parent, name, attributes, text) => {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  if (!data.items.length) { app.append(make("p", {}, "Nothing was recorded in this run.")); return; }

  // ---------------------------------------------------------------- frame

  const pick = make("select", { id: "object" });
  pick.append(new Option("all objects", -1));
  data.objects.map((name, index) => [name, index]).sort().forEach(([name, index]) => {
    const wrong = Object.keys(data.beliefs[index]).length ? "  (somebody was behind)" : "";
    pick.append(new Option(name + wrong, index));
  });
  const button = (text, label, act) => {
    const node = make("button", { type: "button", "aria-label": label, title: label }, text);
    node.addEventListener("click", act);
    return node;
  };
  const names = document.createElementNS(NS, "svg");
  const svg = document.createElementNS(NS, "svg");
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Timeline. Arrow keys go from record to record, plus and minus zoom, Escape shows everything." });
  names.setAttribute("aria-hidden", "true");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", data.lanes.length + " clients, " + data.items.length + " records over " + data.span.toFixed(1) + " seconds. The same as text is below.");
  scroll.append(svg);
  const detail = make("div", { id: "detail", role: "status" });
  app.replaceChildren(
    make("div", { class: "bar" },
      make("label", { for: "object" }, "Follow"), pick,
      button("−", "Zoom out", () => zoom(1 / 1.6)), button("+", "Zoom in", () => zoom(1.6)), button("Fit", "Fit into the window", fit),
      button("◀", "Earlier record", () => step(-1)), button("▶", "Later record", () => step(1))),
    make("ul", { class: "key" },
      ...["● write", "○ read", "red: refused or failed", "dashed: no answer", "▲ event", "hollow red: hidden or lost", "│ fault or mark", "✕ killed", "shaded: this client's view was behind"].map((t) => make("li", {}, t))),
    make("div", { class: "frame" }, make("div", { class: "names" }, names), scroll), detail);
  if (data.left_out) app.append(make("p", { class: "mute" }, "To keep this readable, " + data.left_out + "."));

  // -------------------------------------------------------------- drawing

  const tops = [];
  let height = TOP;
  for (const lane of data.lanes) { tops.push(height); height += LANE_HEAD + lane.rows.length * ROW + PAD; }
  const x = (t) => 12 + t * scale;
  const y = (item) => tops[item.lane] + LANE_HEAD + item.row * ROW + ROW / 2;
  const related = (item) => followed < 0 || item.o === followed || item.k === "m" || item.k === "w";
  const wide = innerWidth > 640 ? 200 : 118;
  const most = Math.floor(wide / 7.6);
  const short = (name) => name.length > most ? "…" + name.slice(1 - most) : name;

  function drawNames() {
    names.replaceChildren();
    names.setAttribute("width", wide);
    names.setAttribute("height", height);
    data.lanes.forEach((lane, index) => {
      draw(names, "text", { x: 10, y: tops[index] + 15, class: "name" }, short(lane.name.replace(/^system:(serviceaccount:[^:]*:)?/, "")));
      lane.rows.forEach((row, at) => draw(names, "text", { x: 20, y: tops[index] + LANE_HEAD + at * ROW + ROW / 2 + 4, class: "sub" }, short(row)));
    });
  }

  function tick() {
    const wanted = 90 / scale;
    const power = Math.pow(10, Math.floor(Math.log10(wanted)));
    return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wanted);
  }

  function render() {
    svg.replaceChildren();
    const width = x(data.span) + 24;
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    const every = tick();
    for (let t = 0; t <= data.span + every / 2 && x(t) < width; t += every) {
      draw(svg, "line", { x1: x(t), x2: x(t), y1: TOP - 6, y2: height, class: "grid" });
      draw(svg, "text", { x: x(t) + 3, y: 14, class: "tick" }, every < 0.1 ? (t * 1000).toFixed(every < 0.001 ? 1 : 0) + " ms" : t.toFixed(every < 1 ? 1 : 0) + " s");
    }
    data.lanes.forEach((lane, index) => lane.rows.forEach((row, at) => {
      const level = tops[index] + LANE_HEAD + at * ROW + ROW / 2;
      draw(svg, "line", { x1: 0, x2: width, y1: level, y2: level, class: "base" });
    }));
    if (followed >= 0) behind();
    data.items.forEach((item, index) => { if (item.k === "w") shape(item, index); });
    data.items.forEach((item, index) => { if (item.k !== "w") shape(item, index); });
  }

  function behind() {
    const spans = data.beliefs[followed];
    data.lanes.forEach((lane, index) => {
      for (const [from, to, mine, truth] of spans[lane.name] || []) {
        const box = draw(svg, "rect", { x: x(from), y: tops[index] + 3, width: Math.max(2, (to - from) * scale), height: LANE_HEAD - 6, rx: 3, class: "behind" });
        draw(box, "title", {}, said(lane.name, from, to, mine, truth));
        if ((to - from) * scale > 190) draw(svg, "text", { x: x(from) + 5, y: tops[index] + 16 }, "had " + version(mine) + ", is " + version(truth));
      }
    });
  }
  const version = (v) => v === null ? "nothing" : "version " + v;
  const said = (client, from, to, mine, truth) =>
    client + " was behind for " + (to - from).toFixed(3) + " s from " + from.toFixed(3) + " s: it had " + version(mine) + ", the API server " + version(truth);

  function shape(item, index) {
    const group = draw(svg, "g", { class: related(item) ? "" : "fade" });
    const level = y(item), left = x(item.t), right = x(item.u);
    const ring = index === chosen ? " chosen" : "";
    if (item.k === "w") {
      draw(group, "rect", { x: left, y: level - 6, width: Math.max(3, right - left), height: 12, rx: 6, class: "w" + ring });
    } else if (item.k === "x") {
      if (right - left > 3) draw(group, "line", { x1: left, x2: right, y1: level, y2: level, class: "dur " + item.c });
      draw(group, "circle", { cx: left, cy: level, r: item.w ? 5 : 3.5, class: "x " + item.c + (item.w ? "" : " read") + ring });
    } else if (item.k === "e") {
      if (right - left > 3) draw(group, "line", { x1: left, x2: right, y1: level, y2: level, class: "late" });
      draw(group, "path", { d: "M" + right + " " + (level - 6) + " l5 10 h-10 z", class: "e " + item.c + ring });
    } else {
      const bottom = tops[item.lane] + LANE_HEAD + data.lanes[item.lane].rows.length * ROW;
      draw(group, "line", { x1: left, x2: left, y1: tops[item.lane] + 2, y2: bottom, class: "m " + item.c + ring });
      if (item.c === "kill") draw(group, "path", { d: "M" + (left - 6) + " " + (level - 6) + " l12 12 m0 -12 l-12 12", class: "m kill" + ring, fill: "none" });
    }
    const hit = draw(group, "rect", { x: Math.min(left, right) - 6, y: level - 11, width: Math.min(Math.abs(right - left), item.k === "w" ? 1e9 : 40) + 12, height: 22, class: "hit" });
    draw(hit, "title", {}, data.lines[item.n].trim());
    hit.addEventListener("click", () => choose(index));
  }

  // -------------------------------------------------------------- choosing

  function choose(index, bring) {
    if (chosen >= 0) document.getElementById("line-" + data.items[chosen].n).classList.remove("chosen");
    chosen = index;
    const item = data.items[index];
    document.getElementById("line-" + item.n).classList.add("chosen");
    const parts = [make("p", {}, data.lines[item.n].trim())];
    if (item.f && item.f.length) parts.push(make("p", {}, "Rules that acted on it: " + item.f.join(", ")));
    if (item.o >= 0) {
      parts.push(make("p", { class: "mute" }, "About " + data.objects[item.o]));
      for (const [client, spans] of Object.entries(data.beliefs[item.o])) {
        for (const [from, to, mine, truth] of spans) {
          if (client === data.lanes[item.lane].name && from <= item.t && item.t <= to) parts.push(make("p", {}, "At this moment " + said(client, from, to, mine, truth) + "."));
        }
      }
      if (item.o !== followed) parts.push(button("Follow this object", "Follow " + data.objects[item.o], () => follow(item.o)));
    }
    const bodies = [[item.k === "x" ? "sent" : "object", item.d], ["answered", item.a]].filter(([, text]) => text);
    if (bodies.length) parts.push(make("div", { class: "two" }, ...bodies.map(([name, text]) => make("div", {}, make("p", { class: "mute" }, name), make("pre", { tabindex: "0" }, text)))));
    detail.replaceChildren(...parts);
    render();
    if (bring) {
      const at = x(item.t);
      if (at < scroll.scrollLeft + 40 || at > scroll.scrollLeft + scroll.clientWidth - 40) scroll.scrollLeft = at - scroll.clientWidth / 2;
    }
  }

  function step(by) {
    let index = chosen < 0 ? (by > 0 ? -1 : data.items.length) : chosen;
    do index += by; while (data.items[index] && !related(data.items[index]));
    if (data.items[index]) choose(index, true);
  }

  function follow(index) {
    followed = index;
    pick.value = String(index);
    const wrong = index < 0 ? [] : Object.entries(data.beliefs[index]).flatMap(([client, spans]) => spans.map((span) => [client, ...span]));
    // The longest first; a few milliseconds are how long news travels.
    wrong.sort((one, other) => (other[2] - other[1]) - (one[2] - one[1]));
    const shown = wrong.filter((one, place) => place < 1 || (place < 8 && one[2] - one[1] > 0.05));
    if (shown.length) {
      detail.replaceChildren(make("p", {}, "Followed: " + data.objects[index]), ...shown.map((one) => make("p", {}, said(...one) + ".")));
      if (wrong.length > shown.length) detail.append(make("p", { class: "mute" }, "And " + (wrong.length - shown.length) + " times for less."));
    }
    render();
  }

  function everything() {
    if (chosen >= 0) document.getElementById("line-" + data.items[chosen].n).classList.remove("chosen");
    chosen = -1;
    detail.textContent = "Choose a record to see it whole.";
    follow(-1);
  }

  function zoom(by) {
    const middle = (scroll.scrollLeft + scroll.clientWidth / 2 - 12) / scale;
    const least = (scroll.clientWidth - 40) / Math.max(data.span, 0.001);
    scale = Math.min(Math.max(scale * by, Math.min(least, 4000)), 200000);
    render();
    scroll.scrollLeft = x(middle) - scroll.clientWidth / 2;
  }
  function fit() { scale = (scroll.clientWidth - 40) / Math.max(data.span, 0.001); render(); scroll.scrollLeft = 0; }

  pick.addEventListener("change", () => follow(Number(pick.value)));
  scroll.addEventListener("keydown", (event) => {
    const act = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), 0: fit, Escape: everything,
      Home: () => choose(0, true), End: () => choose(data.items.length - 1, true),
      Enter: () => { if (chosen >= 0 && data.items[chosen].o >= 0) follow(data.items[chosen].o); } }[event.key];
    if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); act(); }
  });
  scroll.addEventListener("wheel", (event) => {
    if (event.ctrlKey) { event.preventDefault(); zoom(event.deltaY < 0 ? 1.25 : 0.8); }
  }, { passive: false });
  addEventListener("resize", render);

  drawNames();
  everything();
  follow(data.follow);
  fit();
})();
