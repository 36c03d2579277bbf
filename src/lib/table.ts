/** Aligned columns: two spaces between them, numbers to the right, `-` for unknown, no borders, nothing cut off. */

export interface Column {
  readonly title: string;
  /** Numbers go to the right. Default left. */
  readonly align?: "left" | "right";
}

/** Rows are cells in the order of the columns; `undefined` is unknown. Cells may hold colour and wide characters. No newline at the end. */
export function renderTable(columns: readonly Column[], rows: readonly (readonly (string | undefined)[])[]): string {
  const lines = [columns.map((column) => column.title), ...rows.map((row) => columns.map((_, at) => row[at] ?? "-"))];
  const widths = lines.map((line) => line.map(widthOf));
  const room = columns.map((_, at) => widths.reduce((most, line) => Math.max(most, line[at] ?? 0), 0));
  return lines.map((line, at) => renderLine(line, widths[at] ?? [], room, columns)).join("\n");
}

/** Nearly every cell is plain text, whose width is its length. */
function widthOf(cell: string): number {
  return PLAIN.test(cell) ? cell.length : Bun.stringWidth(cell);
}

const PLAIN = /^[ -~]*$/;

function renderLine(line: readonly string[], widths: readonly number[], room: readonly number[], columns: readonly Column[]): string {
  let text = "";
  for (const [at, cell] of line.entries()) {
    const blanks = " ".repeat(Math.max(0, (room[at] ?? 0) - (widths[at] ?? 0)));
    text += `${at === 0 ? "" : "  "}${columns[at]?.align === "right" ? `${blanks}${cell}` : `${cell}${blanks}`}`;
  }
  return text.trimEnd();
}
