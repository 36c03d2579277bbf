/** What the XML parser returns, looked at by path. A whole block may collapse to a text ("N/A", "GPU is lost"): children are never assumed. */

export type XmlNode = { readonly [tag: string]: unknown };

function isNode(value: unknown): value is XmlNode {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The element at a path of tags, `undefined` when it is not there or is a text. */
export function nodeAt(from: unknown, path: string): XmlNode | undefined {
  const value = valueAt(from, path);
  return isNode(value) ? value : undefined;
}

/** The text at a path of tags, `undefined` when it is not there or has children. */
export function textAt(from: unknown, path: string): string | undefined {
  const value = valueAt(from, path);
  return typeof value === "string" ? value : undefined;
}

/** All elements at a path whose last tag may repeat. */
export function nodesAt(from: unknown, path: string): readonly XmlNode[] {
  const value = valueAt(from, path);
  if (Array.isArray(value)) return value.filter(isNode);
  return isNode(value) ? [value] : [];
}

function valueAt(from: unknown, path: string): unknown {
  let at = from;
  for (const tag of path.split(".")) at = isNode(at) && Object.hasOwn(at, tag) ? at[tag] : undefined;
  return at;
}
