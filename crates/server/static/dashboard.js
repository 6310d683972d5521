// What the pages do on their own: keep up to date, switch the theme, obey the keyboard.
// Everything here is an addition; the pages work without it.
"use strict";

(function () {
  const root = document.documentElement;
  const live = document.querySelector("[data-live][data-topic]");
  const told = document.querySelector("[data-live-state]");

  // --- theme

  // Without storage what is kept holds for this page.
  function keep(store, name, value) {
    try {
      window[store].setItem(name, value);
    } catch {
      // Somebody forbade it.
    }
  }
  function kept(store, name) {
    try {
      return window[store].getItem(name);
    } catch {
      return null;
    }
  }

  const themes = ["system", "light", "dark"];
  let theme = kept("localStorage", "consign-theme");
  if (!themes.includes(theme)) theme = "system";
  function dress(name) {
    if (name === "system") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", name);
    const button = document.querySelector("[data-theme-switch]");
    if (button) button.textContent = "Theme: " + name;
  }
  dress(theme);
  const themeSwitch = document.querySelector("[data-theme-switch]");
  if (themeSwitch) {
    themeSwitch.hidden = false;
    themeSwitch.addEventListener("click", () => {
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      keep("localStorage", "consign-theme", theme);
      dress(theme);
    });
  }

  // --- times, in the viewer's zone

  const date = (options) => new Intl.DateTimeFormat("en-GB", options);
  const ofToday = date({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
  const ofYear = date({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  const ofEver = date({ day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
  const exact = date({ dateStyle: "medium", timeStyle: "long" });
  function localise(place) {
    const now = new Date();
    for (const time of place.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      const text = time.querySelector(".at");
      if (Number.isNaN(at.getTime()) || !text) continue;
      const isToday = at.toDateString() === now.toDateString();
      const isThisYear = at.getFullYear() === now.getFullYear();
      text.textContent = (isToday ? ofToday : isThisYear ? ofYear : ofEver).format(at).replace(",", "");
      time.title = exact.format(at) + " (" + time.dateTime + ")";
    }
  }
  localise(document);

  // --- what was written and not sent

  // What a form is about: where it leads, and what it carries beside what people write.
  function about(form) {
    const hidden = [...form.querySelectorAll("input[type=hidden]:not([name=csrf])")];
    return JSON.stringify([form.getAttribute("action"), ...hidden.map((field) => field.name + "=" + field.value)]);
  }

  // A form was refused, perhaps because the session had ended: its reason comes back into it, if it
  // is the same form, soon, and not after somebody has logged out.
  const KEPT_MS = 10 * 60 * 1000;
  const unsent = document.querySelector("[data-kept]");
  if (unsent) {
    const sent = JSON.parse(kept("sessionStorage", "consign-sent") ?? "[]");
    const [name, action] = sent;
    if (action === unsent.getAttribute("data-kept")) {
      keep("sessionStorage", "consign-kept", JSON.stringify([name, unsent.value, Date.now()]));
    }
  } else {
    const [name, reason, at] = JSON.parse(kept("sessionStorage", "consign-kept") ?? "[]");
    const form = [...document.forms].find((form) => about(form) === name);
    const field = form && form.querySelector("[name=reason]");
    if (field && Date.now() - at < KEPT_MS) {
      field.value = reason;
      keep("sessionStorage", "consign-kept", "[]");
    }
  }
  document.addEventListener("submit", (event) => {
    const action = event.target.getAttribute("action");
    keep("sessionStorage", "consign-sent", JSON.stringify([about(event.target), action]));
    if (action === "/ui/logout") keep("sessionStorage", "consign-kept", "[]");
  });

  // A payload that was shown is an answer to a form. Loading the page again shows the message
  // without it, instead of asking whether to send the form once more.
  if (document.querySelector("[data-revealed]") && location.pathname.endsWith("/reveal")) {
    history.replaceState(null, "", location.pathname.slice(0, -"/reveal".length));
  }
  // The same for the results of what was done to many messages.
  const answered = document.querySelector("[data-answered]");
  if (answered) history.replaceState(null, "", answered.getAttribute("data-answered"));

  // --- a button that copies what stands beside it

  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) break;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
      button.textContent = "Copied";
    });
  }

  // --- rows that are selected

  const bulk = document.querySelector("form[data-bulk]");
  const all = bulk && bulk.querySelector("[data-all]");
  const picks = () => [...document.querySelectorAll(".pick input")];
  const picked = () => bulk ? picks().filter((pick) => pick.checked).length : 0;
  let waiting = null;
  function counted() {
    if (!bulk) return;
    const words = picked() === 1 ? "1 message selected" : picked() + " messages selected";
    bulk.querySelector("[data-picked]").textContent = picked() ? words : bulk.getAttribute("data-none");
    all.textContent = picked() && picked() === picks().length ? "Select none" : "Select all shown";
    if (!picked() && waiting !== null) {
      const html = waiting;
      waiting = null;
      show(html);
    }
  }
  if (bulk) {
    all.hidden = false;
    all.addEventListener("click", () => {
      const isOn = picked() < picks().length;
      for (const pick of picks()) pick.checked = isOn;
      counted();
    });
    document.addEventListener("change", (event) => {
      if (event.target.matches(".pick input")) counted();
    });
    window.addEventListener("pageshow", counted);
  }

  // --- staying up to date

  function isWriting() {
    const fields = document.querySelectorAll("main form input:not([type=hidden]), main form select");
    return [...fields].some((field) => field === document.activeElement || (field.value !== field.defaultValue && field.type !== "radio" && field.tagName === "INPUT"));
  }

  // Where the focus was: the link or summary with the same words and target.
  function mark(element) {
    if (!element || !live.contains(element)) return null;
    return { tag: element.tagName, href: element.getAttribute("href"), words: element.textContent };
  }
  function find(marked) {
    if (!marked) return null;
    return [...live.querySelectorAll(marked.tag)].find(
      (element) => element.getAttribute("href") === marked.href && element.textContent === marked.words);
  }

  function show(html) {
    // Rows that are selected stay where they are until something is done with them.
    if (picked()) {
      waiting = html;
      say(" · not live while messages are selected");
      return;
    }
    const before = live.querySelector("[data-state]");
    const stateBefore = before && before.getAttribute("data-state");
    const marked = mark(document.activeElement);
    const open = [...live.querySelectorAll("details")].map((element) => element.open);
    // The server has escaped what is in it; nothing is made of text here.
    const parsed = new DOMParser().parseFromString(html, "text/html");
    live.replaceChildren(...parsed.body.childNodes);
    localise(live);
    live.querySelectorAll("details").forEach((element, index) => {
      if (open[index]) element.open = true;
    });
    const again = find(marked);
    if (again) again.focus({ preventScroll: true });
    const after = live.querySelector("[data-state]");
    const stateAfter = after && after.getAttribute("data-state");
    // The buttons below belong to the former state.
    if (stateBefore && stateAfter && stateBefore !== stateAfter && !isWriting() && !document.querySelector("[data-revealed]")) location.reload();
  }

  function say(words) {
    if (told) told.textContent = words;
  }

  // A tab that nobody looks at asks for nothing: browsers open six connections to a server, and a
  // stream for each hidden tab would leave none for the seventh page.
  let events = null;
  function listen() {
    if (events) return;
    const topic = live.getAttribute("data-topic");
    events = new EventSource("/ui/events?topic=" + encodeURIComponent(topic));
    events.addEventListener("open", () => say(" · live"));
    events.addEventListener("live", (event) => {
      say(" · live");
      show(event.data);
    });
    events.addEventListener("stale", (event) => say(" · not live: the database has not answered since " + event.data));
    events.addEventListener("error", () => {
      say(" · not up to date, trying again");
      // Refused for good: the session may have ended.
      if (events && events.readyState === EventSource.CLOSED) {
        setTimeout(() => { if (!isWriting()) location.reload(); }, 10000);
      }
    });
  }
  function rest() {
    if (events) events.close();
    events = null;
    say(" · not live while hidden");
  }
  function listenIfSeen() {
    if (document.visibilityState === "hidden") rest();
    else listen();
  }

  if (live && "EventSource" in window) {
    listenIfSeen();
    document.addEventListener("visibilitychange", listenIfSeen);
    window.addEventListener("pagehide", rest);
    // Back to a page that the browser has kept as it was.
    window.addEventListener("pageshow", (event) => { if (event.persisted) listenIfSeen(); });
  }

  // --- keyboard

  const keys = [
    ["j / k", "next / previous row"],
    ["Enter", "open the row"],
    ["x", "select the row, or not any more"],
    ["s", "what to do with selected rows"],
    ["/", "find a message"],
    ["g o", "overview"],
    ["g q", "queues"],
    ["g m", "messages"],
    ["g d", "dead letters"],
    ["g s", "schedules"],
    ["g p", "processes"],
    ["g a", "audit"],
    ["?", "this help; the foot of the page switches shortcuts off"],
  ];
  const places = { o: "/", q: "/ui/queues", m: "/ui/messages", d: "/ui/dead", s: "/ui/schedules", p: "/ui/processes", a: "/ui/audit" };
  let going = false;
  let obeys = kept("localStorage", "consign-keys") !== "off";
  const keysSwitch = document.querySelector("[data-keys-switch]");
  function tell() {
    keysSwitch.textContent = "Shortcuts: " + (obeys ? "on" : "off");
  }
  if (keysSwitch) {
    keysSwitch.hidden = false;
    tell();
    keysSwitch.addEventListener("click", () => {
      obeys = !obeys;
      keep("localStorage", "consign-keys", obeys ? "on" : "off");
      tell();
    });
  }

  function rows() {
    return [...document.querySelectorAll("tr[data-row]")];
  }
  function step(by) {
    const all = rows();
    if (all.length === 0) return;
    const now = all.findIndex((row) => row.contains(document.activeElement));
    const next = all[Math.min(Math.max(now + by, 0), all.length - 1)];
    const link = next.querySelector("a");
    if (link) link.focus();
  }
  function pick() {
    const row = rows().find((row) => row.contains(document.activeElement));
    const box = row && row.querySelector(".pick input");
    if (box) box.click();
  }
  function decide() {
    const button = bulk && bulk.querySelector("button[type=submit]");
    if (button) button.focus();
  }
  function help() {
    let dialog = document.querySelector("dialog[data-help]");
    if (!dialog) {
      dialog = document.createElement("dialog");
      dialog.setAttribute("data-help", "");
      dialog.setAttribute("aria-label", "Keyboard");
      const list = document.createElement("dl");
      for (const [key, words] of keys) {
        const term = document.createElement("dt");
        const meaning = document.createElement("dd");
        term.textContent = key;
        meaning.textContent = words;
        list.append(term, meaning);
      }
      const form = document.createElement("form");
      form.method = "dialog";
      const close = document.createElement("button");
      close.textContent = "Close";
      form.append(close);
      dialog.append(list, form);
      document.body.append(dialog);
    }
    if (!dialog.open) dialog.showModal();
  }

  document.addEventListener("keydown", (event) => {
    const target = event.target;
    const writes = target instanceof HTMLElement && (target.isContentEditable || target.matches("input:not([type=checkbox]), select, textarea"));
    const isBusy = document.querySelector("dialog[open]") !== null;
    if (!obeys || writes || isBusy || event.ctrlKey || event.metaKey || event.altKey) return;
    if (going) {
      going = false;
      const place = places[event.key];
      if (place) location.assign(place);
      return;
    }
    const search = document.querySelector("[data-search]");
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "x") pick();
    else if (event.key === "s") decide();
    else if (event.key === "g") going = true;
    else if (event.key === "?") help();
    else if (event.key === "/" && search) search.focus();
    else return;
    event.preventDefault();
  });
})();
