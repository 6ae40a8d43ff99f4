// The learner's verdicts on the page, where the site is served by `phase4`.
//
// The server says so in the page's head; from a file or another server the pages
// stay as they were built and explain how to get this. What a learner or a program
// wrote is only ever put in as text, never as HTML.
(function () {
  "use strict";

  const SIGN = { PASS: "✓", FAIL: "✗", "NOT GRADED": "–", UNKNOWN: "?", "not checked": "·", "not built": "·" };
  const GROUPS = { live: "Live", build: "Build", written: "Written", claim: "Claims" };
  const ROOT = new URL(document.querySelector("link[rel=icon]").href.replace(/assets\/favicon\.svg$/, ""));

  function el(name, attributes, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  /** A sentence of ours: `code` becomes code, everything else stays text. */
  function prose(text) {
    const out = document.createDocumentFragment();
    text.split(/(`[^`]+`)/).forEach((part, index) => {
      out.append(index % 2 ? el("code", {}, part.slice(1, -1)) : part);
    });
    return out;
  }

  function badge(standing, brief) {
    const known = SIGN[standing] !== undefined ? standing : "UNKNOWN";
    const shown = known === "not checked" || known === "not built" ? "NOT RUN" : known;
    const node = el("span", { class: "p4-badge", "data-v": shown });
    if (brief) {
      node.append(SIGN[known]);
      node.setAttribute("role", "img");
      node.setAttribute("aria-label", standing);
      node.title = standing;
    } else node.append(SIGN[known] + " " + standing);
    return node;
  }

  function page(lab, info) { return new URL(info.module + "/" + lab + ".html", ROOT).href; }
  function when(seconds) { return new Date(seconds * 1000).toLocaleString(); }

  async function json(path) {
    const answer = await fetch("/-/phase4/" + path, { headers: { Accept: "application/json" } });
    return answer.ok ? answer.json() : null;
  }

  // ------------------------------------------------------------ every page

  function dots(state) {
    for (const dot of document.querySelectorAll(".p4-dot")) {
      const info = state.labs[dot.dataset.lab];
      if (info && info.built) dot.replaceChildren(badge(info.standing, true));
    }
  }

  function next(state) {
    const place = document.querySelector('.p4-live[data-what="next"]');
    if (!place) return;
    if (state.problem) { place.replaceChildren(el("p", {}, prose(state.problem))); return; }
    const lab = state.next && state.labs[state.next];
    place.replaceChildren(el("p", {},
      state.passed + " of " + state.total + " labs passed. ",
      lab ? "Next: " : "Every lab that this version can grade is passed. ",
      lab ? el("a", { href: page(state.next, lab) }, state.next + " " + lab.title)
        : el("a", { href: new URL("gate.html", ROOT).href }, "See the gate")));
  }

  // ------------------------------------------------------------- lab pages

  let shownAt = {};

  async function lab(state) {
    const place = document.querySelector(".p4-verdict[data-lab]");
    if (!place) return;
    const id = place.dataset.lab;
    const info = state.labs[id];
    if (!info || !info.built) return;
    if (!place.dataset.told) place.dataset.told = place.textContent.trim();
    const busy = state.running.includes(id);
    const head = el("p", { role: "status", class: busy ? "p4-running" : null });
    if (busy) head.append("Being checked now");
    else if (state.problem) head.append(prose(state.problem));
    else if (info.checked === null) head.append("Not checked yet. ", el("code", {}, "phase4 check " + id + " --watch"), " shows the verdict here at every save.");
    else head.append(badge(info.standing), " ", info.earned + " of " + info.points + " points, " + when(info.checked));
    if (busy && info.checked !== null) head.append(". Before: ", badge(info.standing));
    place.dataset.v = info.standing;

    const version = info.checked + " " + info.assessed;
    if (shownAt[id] === version && place.querySelector(".p4-messages")) {
      place.replaceChild(head, place.firstChild);
      return;
    }
    shownAt[id] = version;
    const report = info.checked === null ? null : await json("report/" + encodeURIComponent(id));
    const messages = el("div", { class: "p4-messages" });
    if (report) {
      marks(report);
      for (const group of byMessage(report.checks)) messages.append(message(group));
      for (const check of report.checks) if (check.assessment) messages.append(assessment(check));
      if (report.run_dir && report.backend) {
        const run = report.run_dir.split("/").pop();
        messages.append(el("p", {}, "What was said on the wire, drawn: ", el("code", {}, "phase4 timeline " + run + " --html run.html")));
      }
      const seen = observations(report);
      if (seen) messages.append(seen);
    }
    place.replaceChildren(head, messages);
    answer(id, info);
  }

  function marks(report) {
    const results = Object.fromEntries(report.checks.map((check) => [check.id, check]));
    for (const row of document.querySelectorAll(".p4-check")) {
      const result = results[row.dataset.check];
      row.querySelectorAll(".p4-badge").forEach((old) => old.remove());
      if (result) row.prepend(badge(result.verdict));
      row.querySelectorAll(".p4-own").forEach((old) => old.remove());
      if (result && result.assessment && result.verdict === "PASS") row.append(el("small", { class: "p4-own" }, " self-assessed"));
    }
  }

  function byMessage(checks) {
    const groups = new Map();
    for (const check of checks) {
      if (!check.message || check.verdict === "PASS") continue;
      // The boxes say it themselves.
      if (check.message.diagnosis === "not-assessed") continue;
      const key = check.verdict + JSON.stringify(check.message);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(check);
    }
    return groups.values();
  }

  function message(group) {
    const told = group[0].message;
    const list = el("dl", {});
    const row = (name, text) => { if (text) list.append(el("dt", {}, name), el("dd", {}, prose(text))); };
    row("expected", told.expected);
    row("seen", told.seen);
    if (told.evidence && told.evidence.length) {
      list.append(el("dt", {}, ""), el("dd", {}, el("pre", {}, el("code", { tabindex: "0" }, told.evidence.join("\n")))));
    }
    row("why", told.why);
    row("next", told.next);
    if (told.diagnosis) list.append(el("dt", {}, "known as"), el("dd", {}, el("code", {}, told.diagnosis)));
    return el("section", { class: "p4-message", "aria-label": group.map((check) => check.id).join(", ") },
      badge(group[0].verdict), " ",
      group.length > 1 ? group.map((check) => check.id).join(", ") + " all say the same" : prose(group[0].title),
      list);
  }

  // A sentence that only its writer can judge, beside the points of a complete answer.
  function assessment(check) {
    const asked = check.assessment;
    const name = "assess " + check.id;
    const told = el("p", { role: "status" });
    const boxes = asked.points.map((point) => {
      const box = el("input", { type: "checkbox", name: name, value: point.id });
      box.checked = asked.said !== null && asked.said.includes(point.id);
      return box;
    });
    const form = el("form", { class: "p4-assess", "aria-label": check.id + ", your own judgement" },
      el("p", {}, el("strong", {}, check.id), asked.said === null ? ": not yet assessed. Only you can judge this sentence."
        : check.verdict === "PASS" ? ": self-assessed. The mark is your instructor's." : ": not yet. A point is missing by your own reading."),
      el("p", {}, prose(asked.question)),
      el("blockquote", {}, asked.text),
      el("fieldset", {}, el("legend", {}, "Which of these does your sentence say?"),
        ...asked.points.map((point, index) => el("label", {}, boxes[index], el("span", {}, prose(point.text))))),
      el("button", { type: "submit", class: "md-button" }, "Keep this"), told);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const said = boxes.filter((box) => box.checked).map((box) => box.value);
      told.textContent = "";
      try {
        const answer = await fetch("/-/phase4/assess", {
          method: "POST", headers: { "Content-Type": "application/json" },
          body: JSON.stringify({ check: check.id, digest: asked.digest, said: said }) });
        const got = await answer.json();
        // What comes of it arrives with the next state, as after a check.
        told.replaceChildren(prose(answer.ok ? "Kept." : got.problem));
      } catch (error) { told.replaceChildren(prose("The site's server does not answer: `phase4 start` runs it.")); }
    });
    return form;
  }

  function observations(report) {
    if (!report.observations.length) return null;
    const box = el("details", { class: "p4-obs" }, el("summary", {}, "What was measured"));
    const table = el("table", {});
    for (const seen of report.observations) {
      const value = seen.value;
      if (value && typeof value === "object" && typeof value.svg === "string") {
        // As an image: a picture in a report runs no script and loads nothing.
        box.open = true;
        box.append(el("p", {}, el("img", { src: "data:image/svg+xml;utf8," + encodeURIComponent(value.svg), alt: value.alt || seen.name })));
      } else if (value && typeof value === "object" && "predicted" in value) {
        table.append(el("tr", {}, el("th", { scope: "row" }, seen.name), el("td", {}, "predicted " + show(value.predicted)), el("td", {}, truth(value)), el("td", {}, "measured" in value ? "measured " + show(value.measured) : "")));
      } else {
        table.append(el("tr", {}, el("th", { scope: "row" }, seen.name), el("td", { colspan: 3 }, ...shown(value))));
      }
    }
    if (table.rows.length) box.append(el("div", { class: "p4-table", tabindex: "0", role: "group", "aria-label": "What was measured" }, table));
    return box;
  }

  // What a prediction is held against; grader/report/predictions.py says it in the same words.
  function truth(value) {
    if (!("agrees" in value)) return "";
    return (value.agrees ? "right" : "≠ it is " + show(value.right)) + ("within" in value ? " within " + value.within : "");
  }

  // A value as a reader wants it: a table of few words as lines, a list in a row.
  function shown(value) {
    if (Array.isArray(value)) return [value.map(show).join(", ")];
    if (!value || typeof value !== "object") return [show(value)];
    return Object.entries(value).map(([name, one]) => el("div", {}, name + ": ", ...shown(one)));
  }

  function show(value) { return typeof value === "string" ? value : JSON.stringify(value); }

  async function answer(id, info) {
    const place = document.querySelector('.p4-answer[data-lab="' + id + '"]');
    if (!place || place.dataset.open) return;
    if (!info.opened) return;
    const got = await json("answer/" + encodeURIComponent(id));
    if (!got) return;
    place.dataset.open = "yes";
    place.replaceChildren();
    if (got.notes) {
      // The course's own words, made into HTML by the server; nobody else's.
      const notes = el("div", {});
      notes.innerHTML = got.notes;
      place.append(notes);
    }
    for (const file of got.files) {
      place.append(el("details", {}, el("summary", {}, file.name), el("pre", {}, el("code", { tabindex: "0" }, file.text))));
    }
    if (!got.files.length && !got.notes) place.append(el("p", {}, "This lab has no reference answer in this version."));
  }

  // --------------------------------------------- progress, gate, checklist

  function progress(state) {
    const place = document.querySelector('.p4-live[data-what="progress"]');
    if (!place) return;
    const out = [];
    if (state.problem) out.push(el("p", {}, prose(state.problem)));
    for (const sentence of state.damaged) out.push(el("p", {}, prose(sentence)));
    const share = state.total ? Math.round((100 * state.passed) / state.total) : 0;
    const bar = el("div", { class: "p4-bar", role: "progressbar", "aria-label": "Labs passed", "aria-valuenow": state.passed, "aria-valuemin": 0, "aria-valuemax": state.total }, el("i", {}));
    bar.firstChild.style.width = share + "%";
    out.push(el("p", { role: "status" }, state.passed + " of " + state.total + " labs passed, " + state.earned + " of " + state.points + " points."), bar);
    if (state.self_assessed.length) out.push(el("p", {}, "Self-assessed, marked by your instructor: " + state.self_assessed.join(", ") + "."));
    const body = el("tbody", {});
    let later = 0;
    for (const [id, info] of Object.entries(state.labs)) {
      if (!info.built) { later += 1; continue; }
      body.append(el("tr", {},
        el("td", {}, badge(info.standing)),
        el("td", {}, el("a", { href: page(id, info) }, id + " " + info.title), state.running.includes(id) ? el("span", { class: "p4-running" }, " being checked") : null),
        el("td", {}, info.earned + "/" + info.points),
        el("td", {}, info.checked === null ? "" : when(info.checked))));
    }
    const head = el("thead", {}, el("tr", {}, ...["Verdict", "Lab", "Points", "Checked"].map((name) => el("th", { scope: "col" }, name))));
    out.push(el("div", { class: "p4-table", tabindex: "0", role: "group", "aria-label": "Labs" }, el("table", {}, head, body)));
    if (later) out.push(el("p", {}, later + " more labs are not built yet."));
    place.replaceChildren(...out);
  }

  function gate(state) {
    const place = document.querySelector('.p4-live[data-what="gate"]');
    if (!place) return;
    const met = state.gate.filter((one) => one.met).length;
    place.replaceChildren(el("p", { role: "status" }, met === state.gate.length
      ? "All three conditions are met: the gate is open."
      : met + " of " + state.gate.length + " conditions met: the gate is closed."));
    for (const condition of state.gate) {
      const box = document.querySelector('.p4-gate[data-condition="' + condition.number + '"]');
      if (!box) continue;
      const out = [el("p", {}, el("strong", {}, condition.met ? "✓ Met." : "Not met yet."), condition.met ? "" : " Still missing:")];
      if (condition.self_assessed.length) out.push(el("p", {}, "Self-assessed, marked by your instructor: " + condition.self_assessed.join(", ") + "."));
      const list = el("dl", {});
      for (const [group, lacks] of Object.entries(condition.missing)) {
        const labs = new Map();
        for (const one of lacks) labs.set(one.what, [...(labs.get(one.what) || []), one.lab]);
        list.append(el("dt", {}, GROUPS[group]), el("dd", {},
          ...[...labs].map(([what, names]) => el("div", {}, names.join(", ") + ": ", prose(what)))));
      }
      if (list.children.length) out.push(list);
      box.replaceChildren(...out);
    }
  }

  function checklist(state) {
    for (const line of document.querySelectorAll(".p4-line")) {
      const labs = line.dataset.labs.split(" ").map((id) => state.labs[id]);
      const done = labs.filter((info) => info && info.standing === "PASS").length;
      line.replaceChildren(badge(done === labs.length ? "PASS" : "not checked", true), " ");
      line.firstChild.title = done + " of " + labs.length + " labs passed";
      line.firstChild.setAttribute("aria-label", line.firstChild.title);
    }
    const place = document.querySelector('.p4-live[data-what="checklist"]');
    if (place) {
      const lines = [...document.querySelectorAll(".p4-line")];
      const ticked = lines.filter((line) => line.querySelector('[data-v="PASS"]')).length;
      place.replaceChildren(el("p", { role: "status" }, ticked + " of " + lines.length + " lines ticked by your labs."));
    }
  }

  function render(state) {
    dots(state);
    next(state);
    progress(state);
    gate(state);
    checklist(state);
    lab(state);
  }

  function follow() {
    const stream = new EventSource("/-/phase4/events");
    stream.addEventListener("state", (event) => render(JSON.parse(event.data)));
    // The browser comes back by itself when the server was restarted. A page that
    // is left does not keep the connection.
    window.addEventListener("pagehide", () => stream.close());
    window.addEventListener("pageshow", (event) => { if (event.persisted) follow(); }, { once: true });
  }

  // ------------------------------------------- what the theme leaves undone

  function reachable() {
    // What scrolls sideways must be reachable without a mouse.
    for (const code of document.querySelectorAll(".md-typeset pre > code")) {
      if (code.scrollWidth > code.clientWidth && !code.hasAttribute("tabindex")) code.tabIndex = 0;
    }
  }

  function named() {
    // A note in a code block is a dot with a number to the eye and nothing to the ear.
    document.querySelectorAll(".md-annotation__index:not([aria-label])").forEach((dot) => {
      const number = dot.querySelector("[data-md-annotation-id]");
      if (number) dot.setAttribute("aria-label", "Note " + number.dataset.mdAnnotationId);
    });
  }

  reachable();
  named();
  new MutationObserver(named).observe(document.body, { childList: true, subtree: true });
  window.addEventListener("resize", reachable);
  if (document.querySelector('meta[name="phase4-live"]')) follow();
})();
