// Elements, requests and number formats of both pages. Text is never inserted as HTML.

const TIMEOUT_MS = 5000;

export function el(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element[`on${event}`] = listener;
    } else if (name in element && name !== "list" && name !== "form") {
      element[name] = value;
    } else {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const button = (text, click, options) => el("button", { type: "button", on: { click }, ...options }, text);

// Give an element new children, keeping those that are alike: focus and selection survive.
export function patch(place, ...fresh) {
  fresh.forEach((node, index) => {
    const known = node.id && [...place.children].find((each) => each.id === node.id);
    if (known && known !== place.childNodes[index]) place.insertBefore(known, place.childNodes[index]);
    const old = place.childNodes[index];
    if (!old) place.append(node);
    else if (old.nodeName !== node.nodeName || (old.id ?? "") !== (node.id ?? "")) old.replaceWith(node);
    else update(old, node);
  });
  while (place.childNodes.length > fresh.length) place.lastChild.remove();
}

function update(old, node) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  // The policy of the page forbids style attributes, but not the style of an element.
  if (old.style.cssText !== node.style.cssText) old.style.cssText = node.style.cssText;
  for (const { name } of [...old.attributes]) if (name !== "style" && !node.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of node.attributes) if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  old.onclick = node.onclick;
  patch(old, ...[...node.childNodes]);
}

export function table(heads, rows, numbers = []) {
  const cell = (tag, index, content) =>
    el(tag, { className: numbers.includes(index) ? "number" : "" }, content);
  return el(
    "div",
    { className: "wide", tabIndex: 0 },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...heads.map((head, index) => cell("th", index, head)))),
      el(
        "tbody",
        {},
        ...rows.map((row) => {
          const line = el("tr", {}, ...row.cells.map((each, index) => cell("td", index, each)));
          if (row.id) line.id = row.id;
          if (row.className) line.className = row.className;
          return line;
        }),
      ),
    ),
  );
}

export async function send(method, path, { body, headers, timeoutMs = TIMEOUT_MS } = {}) {
  const options = { method, headers: { ...headers }, cache: "no-store", signal: AbortSignal.timeout(timeoutMs) };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  const response = await fetch(path, options);
  const text = await response.text();
  const { status, ok, headers: received } = response;
  let content = text;
  try {
    content = JSON.parse(text);
  } catch {
    // Not JSON.
  }
  return { status, ok, content, text, headers: received };
}

const WEI = 10n ** 18n;

// Format wei, decimal digits, as tokens with at most four decimals.
export function tokens(wei) {
  const amount = BigInt(wei);
  const whole = amount / WEI;
  const parts = ((amount % WEI) / 10n ** 14n).toString().padStart(4, "0").replace(/0+$/, "");
  const grouped = whole.toString().replace(/\B(?=(\d{3})+$)/g, ",");
  return parts ? `${grouped}.${parts}` : grouped;
}

// Format a price; a dash for none.
export const cents = (price) => (Number.isInteger(price) ? `${price}¢` : "–");

export function count(number) {
  return Number(number).toLocaleString("en");
}

export function when(ms) {
  return ms ? new Date(ms).toISOString().replace("T", " ").slice(0, 19) : "";
}
