// What about the page that is shown would keep somebody from using it.
const wrong = [];
const name = (it) => it.tagName.toLowerCase() + (it.id ? "#" + it.id : "") + (it.className ? "." + it.className : "");
const words = (it) => (it.innerText || it.getAttribute("aria-label") || "").trim();
const isShown = (it) => it.checkVisibility({ visibilityProperty: true }) && it.getBoundingClientRect().width > 1;

for (const it of document.querySelectorAll("input:not([type=hidden]), select, textarea, meter, progress")) {
  if (it.labels.length === 0 && !it.getAttribute("aria-label")) wrong.push("no label: " + name(it));
}
for (const it of document.querySelectorAll("button:not([hidden]), a[href], summary")) {
  if (words(it) === "") wrong.push("no name: " + name(it) + " " + it.outerHTML);
}
for (const it of document.querySelectorAll("svg")) {
  if (!it.querySelector("title") && it.getAttribute("aria-hidden") !== "true") wrong.push("no title: " + name(it));
}
const ids = [...document.querySelectorAll("[id]")].map((it) => it.id);
for (const id of ids) {
  if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push("id twice: " + id);
}
for (const it of document.querySelectorAll("[aria-labelledby]")) {
  if (!document.getElementById(it.getAttribute("aria-labelledby"))) wrong.push("labelled by nothing: " + name(it));
}
if (!document.documentElement.lang || !document.title) wrong.push("no language or title");

const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((it) => Number(it.tagName[1]));
if (levels.filter((level) => level === 1).length !== 1 || levels[0] !== 1) wrong.push("headings: " + levels);
levels.forEach((level, at) => {
  if (at > 0 && level > levels[at - 1] + 1) wrong.push("a level of headings is left out: " + levels);
});

// Red, green, blue from 0 to 255, and how opaque.
const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const parsed = (color) => {
  paint.clearRect(0, 0, 1, 1);
  paint.fillStyle = color;
  paint.fillRect(0, 0, 1, 1);
  const [red, green, blue, opacity] = paint.getImageData(0, 0, 1, 1).data;
  return [red, green, blue, opacity / 255];
};
const over = (top, bottom) => [0, 1, 2].map((at) => top[at] * top[3] + bottom[at] * (1 - top[3])).concat(1);
const ground = (it) => {
  const grounds = [];
  for (let at = it; at; at = at.parentElement) grounds.push(parsed(getComputedStyle(at).backgroundColor));
  return grounds.reduceRight((bottom, top) => over(top, bottom), parsed("Canvas"));
};
const light = (color) => {
  const [red, green, blue] = color.slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const contrast = (one, other) => {
  const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
};
const check = (it, style, what) => {
  const behind = ground(it);
  const ratio = contrast(over(parsed(style.color), behind), behind);
  if (ratio < 4.5) wrong.push("contrast " + ratio.toFixed(2) + ": " + name(it) + " " + what + " " + style.color + " on " + behind);
};
for (const it of document.querySelectorAll("body *")) {
  const isText = [...it.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "");
  if (!isShown(it)) continue;
  if (isText || it.matches("input, select, textarea")) check(it, getComputedStyle(it), words(it).slice(0, 30));
  if (it.placeholder) check(it, getComputedStyle(it, "::placeholder"), "placeholder");
}
return [...new Set(wrong)];
