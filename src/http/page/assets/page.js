"use strict";
// Keeps the page as the service has it, and says how far each moment is away. The page is whole
// without it. What is put in comes from this service, escaped there.

const SECTIONS = ["top", "canary", "problems", "replicas", "servers", "nodes", "stands"];
// The service sends each second; a stream ends every few seconds and is opened again.
const LOST_AFTER_MS = 4000;
const AGAIN_AFTER_MS = 10000;

let offset = 0; // How far the service's clock is ahead of this one.
let heard = Date.now();

// Makes `old` like `now`, and touches only what is other: focus, selection and what is unfolded
// stay.
function patch(old, now) {
  if (old.isEqualNode(now)) return;
  if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName || (old.id || "") !== (now.id || "")) {
    old.replaceWith(now.cloneNode(true));
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = now.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!now.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) {
    if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.nodeName !== "INPUT") children(old, now);
}

function children(old, now) {
  const wanted = [...now.childNodes];
  const known = new Map([...old.children].filter((e) => e.id).map((e) => [e.id, e]));
  wanted.forEach((child, at) => {
    let there = old.childNodes[at];
    const own = child.id && known.get(child.id);
    if (own && own !== there) {
      old.insertBefore(own, there || null);
      there = own;
    }
    if (there) patch(there, child);
    else old.append(child.cloneNode(true));
  });
  while (old.childNodes.length > wanted.length) old.lastChild.remove();
}

function put(id, html) {
  const section = document.getElementById(id);
  const now = section.cloneNode(false);
  now.innerHTML = html;
  children(section, now);
  heard = Date.now();
  if (id === "top") tick(new Date(document.getElementById("now").dateTime).getTime());
  if (id === "canary") say(document.getElementById("canary-state").textContent);
  label();
}

function tick(now) {
  offset = now - Date.now();
}

// Said once to who cannot see it, at each change.
let said = null;
function say(state) {
  if (said !== null && said !== state) document.getElementById("said").textContent = `Canary: ${state}`;
  said = state;
  document.title = document.title.replace(/^.*? · /, `${state} · `);
}

function span(seconds) {
  const s = Math.round(seconds);
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return s % 60 && m < 10 ? `${m} min ${s % 60} s` : `${m} min`;
  const h = Math.floor(m / 60);
  if (h < 48) return m % 60 ? `${h} h ${m % 60} min` : `${h} h`;
  return `${Math.floor(h / 24)} days`;
}

function label() {
  const now = Date.now() + offset;
  for (const time of document.querySelectorAll("time[data-rel]")) {
    const away = (new Date(time.dateTime).getTime() - now) / 1000;
    const text = away > 0 ? `in ${span(away)}` : `${span(-away)} ago`;
    if (time.textContent !== text) {
      if (!time.title) time.title = time.textContent;
      time.textContent = text;
    }
  }
  const next = document.querySelector(".next[data-from]");
  const gone = document.getElementById("gone");
  if (next && gone) {
    const [from, to] = [next.dataset.from, next.dataset.to].map((at) => new Date(at).getTime());
    gone.setAttribute("width", Math.max(0, Math.min(1000, Math.round(((now - from) / (to - from)) * 1000))));
  }
}

const live = document.getElementById("live");
function show() {
  const silence = Date.now() - heard;
  const lost = silence > LOST_AFTER_MS;
  const text = lost ? `No word from the service for ${span(silence / 1000)}` : "Live";
  if (live.textContent !== text) live.textContent = text;
  live.classList.toggle("is-live", !lost);
  live.classList.toggle("is-lost", lost);
  live.hidden = false;
}

function listen() {
  const source = new EventSource("/events");
  for (const id of SECTIONS) source.addEventListener(id, (event) => put(id, event.data));
  source.addEventListener("error", () => {
    // Full, or gone for good: browsers come again by themselves only after a break.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_AFTER_MS);
  });
}

tick(new Date(document.getElementById("now").dateTime).getTime());
say(document.getElementById("canary-state").textContent);
label();
listen();
setInterval(() => {
  label();
  show();
}, 500);
