// Text on the wire: JSON that stays exact, and arrays of PostgreSQL.

/** JSON text that is sent as it is, for numbers that `number` would round. */
export class RawJson {
  constructor(readonly text: string) {}
}

/** JSON text to send as it is. */
export function rawJson(text: string): RawJson {
  return new RawJson(text);
}

/** JSON text of a value; that of `rawJson` as it is. */
export function toJson(value: unknown): string {
  if (value instanceof RawJson) return value.text;
  const text: string | undefined = JSON.stringify(value);
  if (text === undefined) throw new TypeError(`${typeof value} is no JSON value`);
  return text;
}

/** The text of a PostgreSQL array, which every driver can send. */
export function toArray(items: readonly (string | null | undefined)[]): string {
  const element = (item: string | null | undefined) =>
    item === null || item === undefined
      ? "NULL"
      : `"${item.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  return `{${items.map(element).join(",")}}`;
}

/** The same, or null where every item is: the functions then take their shorter way. */
export function toColumn(items: readonly (string | null | undefined)[]): string | null {
  return items.every((item) => item === null || item === undefined) ? null : toArray(items);
}

/** The text of an interval. */
export function toInterval(ms: number | undefined): string | null {
  return ms === undefined ? null : `${Math.round(ms * 1000)} us`;
}

/** The text of an instant: text passes as it is. */
export function toTime(at: Date | string | undefined): string | null {
  if (at === undefined) return null;
  return typeof at === "string" ? at : at.toISOString();
}

/** A JSON object of the fields that are neither undefined nor null. */
export function toDocument(fields: readonly (readonly [string, unknown])[]): string {
  const parts = fields
    .filter(([, value]) => value !== undefined && value !== null)
    .map(([name, value]) => `${JSON.stringify(name)}:${toJson(value)}`);
  return `{${parts.join(",")}}`;
}

/** The members of a JSON object by name, each as the text that stands there. */
export function members(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [name, start, end] of parts(text, true)) {
    found.set(JSON.parse(name) as string, text.slice(start, end));
  }
  return found;
}

/** The elements of a JSON array, each as the text that stands there. */
export function elements(text: string): string[] {
  return [...parts(text, false)].map(([, start, end]) => text.slice(start, end));
}

function* parts(text: string, isObject: boolean): Generator<[string, number, number]> {
  let at = skipBlanks(text, 0);
  if (text[at] !== (isObject ? "{" : "[")) throw new SyntaxError("not the JSON that was expected");
  at = skipBlanks(text, at + 1);
  while (at < text.length && text[at] !== (isObject ? "}" : "]")) {
    let name = "";
    if (isObject) {
      const end = skipValue(text, at);
      name = text.slice(at, end);
      at = skipBlanks(text, skipBlanks(text, end) + 1);
    }
    const end = skipValue(text, at);
    yield [name, at, end];
    at = skipBlanks(text, end);
    if (text[at] === ",") at = skipBlanks(text, at + 1);
  }
}

function skipBlanks(text: string, at: number): number {
  while (" \t\n\r".includes(text[at] ?? "x")) at++;
  return at;
}

/** The position after the value that begins at `at`. */
function skipValue(text: string, at: number): number {
  let depth = 0;
  for (; at < text.length; at++) {
    const c = text[at];
    if (c === '"') {
      for (at++; at < text.length && text[at] !== '"'; at++) if (text[at] === "\\") at++;
      if (depth === 0) return at + 1;
    } else if (c === "{" || c === "[") {
      depth++;
    } else if (c === "}" || c === "]") {
      if (depth === 0) return at;
      if (--depth === 0) return at + 1;
    } else if (depth === 0 && (c === "," || c === ":" || " \t\n\r".includes(c ?? ""))) {
      return at;
    }
  }
  return at;
}
