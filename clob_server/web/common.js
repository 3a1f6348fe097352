// What both pages need: elements, requests and numbers. Nothing is ever written as HTML.

export function el(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "on") {
      for (const [event, heard] of Object.entries(value)) made.addEventListener(event, heard);
    } else if (name in made && name !== "list" && name !== "form") {
      made[name] = value;
    } else {
      made.setAttribute(name, value);
    }
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function table(heads, rows, numbers = []) {
  const cell = (tag, index, content) =>
    el(tag, { className: numbers.includes(index) ? "number" : "" }, content);
  return el(
    "div",
    { className: "wide" },
    el(
      "table",
      {},
      el("thead", {}, el("tr", {}, ...heads.map((head, index) => cell("th", index, head)))),
      el(
        "tbody",
        {},
        ...rows.map((row) => {
          const made = el("tr", {}, ...row.cells.map((each, index) => cell("td", index, each)));
          if (row.id) made.id = row.id;
          if (row.className) made.className = row.className;
          return made;
        }),
      ),
    ),
  );
}

// A text with `code` in it, as nodes.
export function prose(text) {
  return text
    .split(/`([^`]+)`/)
    .map((part, index) => (index % 2 ? el("code", {}, part) : document.createTextNode(part)));
}

export async function ask(method, path, { body, headers = {} } = {}) {
  const options = { method, headers: { ...headers }, cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  const text = await answer.text();
  let content = text;
  if ((answer.headers.get("Content-Type") ?? "").includes("json")) {
    try {
      content = JSON.parse(text);
    } catch {
      content = text;
    }
  }
  return { status: answer.status, ok: answer.ok, content, text, headers: answer.headers };
}

const WEI = 10n ** 18n;

// Wei in decimal digits, as tokens with four decimals at most.
export function tokens(wei) {
  const amount = BigInt(wei);
  const whole = amount / WEI;
  const parts = ((amount % WEI) / 10n ** 14n).toString().padStart(4, "0").replace(/0+$/, "");
  const grouped = whole.toString().replace(/\B(?=(\d{3})+$)/g, ",");
  return parts ? `${grouped}.${parts}` : grouped;
}

export function count(number) {
  return Number(number).toLocaleString("en");
}

export function when(ms) {
  return ms ? new Date(ms).toISOString().replace("T", " ").slice(0, 19) : "";
}
