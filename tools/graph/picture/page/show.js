
"use strict";
// The page of a graph. Texts come from files that others wrote: they are set as text and never as markup.
(() => {
  const views = JSON.parse(document.getElementById("data").textContent);
  const frames = [...document.querySelectorAll(".view")];
  const pictures = document.getElementById("pictures");
  const details = document.getElementById("details");
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const nodes = new Map();  // "room.node" -> { node, room, view }
  const readers = new Map();  // "room.node" -> keys of what reads it
  let current = 0;
  let chosen = null;
  const scales = views.map(() => null);  // null: fits

  const el = (tag, properties = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  };

  views.forEach((view, number) => {
    for (const room of view.rooms) {
      room.nodes.forEach((node, index) => nodes.set(`${room.room}.${index}`, { node, room, view: number }));
      room.nodes.forEach((node, index) => {
        for (const [from] of node.in) {
          const key = `${room.room}.${from}`;
          if (!readers.has(key)) readers.set(key, []);
          readers.get(key).push(`${room.room}.${index}`);
        }
      });
    }
  });

  const svg = () => frames[current].querySelector("svg");
  const drawn = (key) => frames[current].querySelector(`[data-node="${key}"]`);

  // Zoom. The size of a picture is an attribute: styles that scripts set are for the page's own elements.
  const natural = frames.map((frame) => {
    const box = frame.querySelector("svg").viewBox.baseVal;
    return { width: box.width, height: box.height };
  });
  const fitting = () => Math.min((pictures.clientWidth - 4) / natural[current].width,
                                 (pictures.clientHeight - 4) / natural[current].height, 1.6);
  const resize = () => {
    const scale = scales[current] ?? fitting();
    svg().setAttribute("width", natural[current].width * scale);
    svg().setAttribute("height", natural[current].height * scale);
  };
  const zoom = (factor, x = pictures.clientWidth / 2, y = pictures.clientHeight / 2) => {
    const before = scales[current] ?? fitting();
    const after = Math.min(6, Math.max(0.05, before * factor));
    const left = (pictures.scrollLeft + x) / before;
    const top = (pictures.scrollTop + y) / before;
    scales[current] = after;
    resize();
    pictures.scrollLeft = left * after - x;
    pictures.scrollTop = top * after - y;
  };
  const fit = () => {
    scales[current] = null;
    resize();
  };

  // Details.
  const label = (key) => {
    const { node } = nodes.get(key);
    return node.name ? `${node.op} '${node.name}'` : node.op;
  };
  const link = (key) => el("a", { href: `#${key}`, onclick: (event) => { event.preventDefault(); choose(key, true); } },
                           label(key));
  const list = (title, keys) => keys.length === 0 ? null
    : el("section", {}, el("h3", {}, title), el("ul", {}, ...keys.map((key) => el("li", {}, link(key)))));
  const showRemarks = () => {
    const view = views[current];
    const count = view.rooms.reduce((sum, room) => sum + room.nodes.filter((node) => node.drawn).length, 0);
    details.replaceChildren(
      el("h2", {}, view.title),
      el("p", {}, `${count} nodes drawn. Constants and arithmetic on extents are folded into what reads them.`),
      el("ul", {}, ...view.remarks.map((remark) => el("li", {}, remark))),
      el("p", {}, "Click a node, or go to one with the arrow keys. ", el("kbd", {}, "/"), " searches, ",
         el("kbd", {}, "+"), " and ", el("kbd", {}, "−"), " zoom, ", el("kbd", {}, "0"), " fits, ",
         el("kbd", {}, "Esc"), " lets go."));
  };
  const showNode = (key) => {
    const { node, room } = nodes.get(key);
    const rows = [];
    const row = (name, value) => { if (value !== undefined) rows.push(el("dt", {}, name), el("dd", {}, value)); };
    row("scope", node.scope);
    node.out.forEach((type, index) => row(node.out.length > 1 ? `output ${index}` : "output", type));
    row("value", node.value);
    for (const [name, value] of node.attributes) row(name, value);
    row("cost", node.cost);
    row("loop", node.loop);
    row("in", room.title || undefined);
    const inputs = node.in.map(([from]) => `${room.room}.${from}`).filter((from) => nodes.has(from));
    details.replaceChildren(
      el("h2", {}, node.op), el("p", { class: "name" }, node.name),
      ...(node.note ? [el("p", { class: node.apart ? "why" : "" }, node.note)] : []),
      el("dl", {}, ...rows),
      ...[list("reads", inputs), list("read by", [...new Set(readers.get(key) ?? [])])].filter((part) => part));
  };

  // The drawn node that stands for one: itself, or the first reader of what is folded.
  const standIn = (key) => {
    const seen = new Set();
    const queue = [key];
    while (queue.length > 0) {
      const next = queue.shift();
      if (seen.has(next)) continue;
      seen.add(next);
      if (nodes.get(next).node.drawn) return next;
      queue.push(...(readers.get(next) ?? []));
    }
    return null;
  };
  const letGo = () => {
    for (const element of document.querySelectorAll(".chosen")) element.classList.remove("chosen");
    chosen = null;
  };
  const choose = (key, scroll) => {
    if (!nodes.has(key)) return;
    letGo();
    if (nodes.get(key).view !== current) openView(nodes.get(key).view);
    const standing = standIn(key);
    chosen = standing ?? key;
    showNode(key);
    history.replaceState(null, "", `#${key}`);
    if (standing === null) return;
    const element = drawn(standing);
    if (!element) return;
    element.classList.add("chosen");
    for (const line of frames[current].querySelectorAll(`[data-from="${standing}"], [data-to="${standing}"]`)) {
      line.classList.add("chosen");
    }
    for (const mention of frames[current].querySelectorAll(`[data-of="${standing}"]`)) mention.classList.add("chosen");
    if (scroll) element.scrollIntoView({ block: "center", inline: "center" });
  };

  // To the nearest node in a direction, by where nodes stand.
  const walk = (dx, dy) => {
    const all = [...frames[current].querySelectorAll(".node")];
    if (all.length === 0) return;
    const here = chosen !== null ? drawn(chosen) : null;
    if (!here) {
      choose(all[0].dataset.node, true);
      return;
    }
    const middle = (element) => {
      const box = element.firstElementChild.nextElementSibling.getBoundingClientRect();
      return [box.left + box.width / 2, box.top + Math.min(box.height, 20) / 2];
    };
    const [x, y] = middle(here);
    let best = null;
    let least = Infinity;
    for (const element of all) {
      const [ex, ey] = middle(element);
      const along = (ex - x) * dx + (ey - y) * dy;
      const across = Math.abs((ex - x) * dy) + Math.abs((ey - y) * dx);
      if (element !== here && along > 1 && along + 3 * across < least) {
        least = along + 3 * across;
        best = element;
      }
    }
    if (best) choose(best.dataset.node, true);
  };

  // Search.
  const matches = (text) => {
    const words = text.toLowerCase().split(/\s+/).filter((word) => word);
    const hits = [];
    if (words.length === 0) return hits;
    for (const [key, { node, view }] of nodes) {
      if (view !== current) continue;
      const all = [node.op, node.name, node.scope ?? "", ...node.attributes.flat()].join(" ").toLowerCase();
      if (words.every((word) => all.includes(word))) hits.push(key);
    }
    return hits;
  };
  const lookUp = () => {
    const hits = matches(search.value);
    const asked = search.value.trim() !== "";
    svg().classList.toggle("searching", asked);
    for (const element of frames[current].querySelectorAll(".hit")) element.classList.remove("hit");
    for (const key of hits) {
      const standing = standIn(key);
      if (standing !== null) drawn(standing)?.classList.add("hit");
    }
    found.hidden = !asked;
    document.getElementById("count").textContent = `${hits.length} found`;
    document.getElementById("hits").replaceChildren(
      ...hits.slice(0, 50).map((key) => el("li", {}, el("button", {
        type: "button",
        onclick: () => { found.hidden = true; choose(key, true); },
      }, label(key)))));
  };
  const endSearch = () => {
    search.value = "";
    lookUp();
  };

  // Views.
  const tabs = document.getElementById("tabs");
  views.forEach((view, number) => {
    tabs.append(el("button", { type: "button", role: "tab", id: `tab-${number}`, "aria-controls": `view-${number}`,
                               onclick: () => { endSearch(); openView(number); } }, view.title));
    frames[number].id = `view-${number}`;
    frames[number].setAttribute("role", "tabpanel");
    frames[number].setAttribute("aria-labelledby", `tab-${number}`);
    const picture = frames[number].querySelector("svg");
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", `${view.title}, drawn`);
  });
  tabs.hidden = views.length < 2;
  const openView = (number) => {
    current = number;
    letGo();
    frames.forEach((frame, index) => { frame.hidden = index !== number; });
    [...tabs.children].forEach((tab, index) => tab.setAttribute("aria-selected", index === number));
    resize();
    showRemarks();
  };

  pictures.addEventListener("click", (event) => {
    const target = event.target.closest(".node, .mention");
    if (target) choose(target.dataset.node ?? target.dataset.of, target.dataset.node === undefined);
  });
  pictures.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = pictures.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  document.getElementById("in").addEventListener("click", () => zoom(1.25));
  document.getElementById("out").addEventListener("click", () => zoom(0.8));
  document.getElementById("fit").addEventListener("click", fit);
  search.addEventListener("input", lookUp);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") found.querySelector("button")?.click();
    if (event.key === "ArrowDown") { event.preventDefault(); found.querySelector("button")?.focus(); }
  });
  found.addEventListener("keydown", (event) => {
    const all = [...found.querySelectorAll("button")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    (all[all.indexOf(document.activeElement) + step] ?? search).focus();
  });
  const keys = {
    ArrowDown: () => walk(0, 1), ArrowUp: () => walk(0, -1), ArrowLeft: () => walk(-1, 0), ArrowRight: () => walk(1, 0),
    "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: fit, "/": () => search.focus(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      endSearch();
      letGo();
      showRemarks();
      history.replaceState(null, "", "#");
      pictures.focus();
      return;
    }
    if (event.target === search || found.contains(event.target) || event.ctrlKey || event.altKey || event.metaKey) return;
    const action = keys[event.key];
    if (action && (event.target === pictures || !event.key.startsWith("Arrow") || event.target === document.body)) {
      event.preventDefault();
      action();
    }
  });
  addEventListener("resize", resize);
  openView(0);
  const asked = location.hash.slice(1);
  if (nodes.has(asked)) choose(asked, true);
})();
