/** Aligned columns: two spaces between them, numbers to the right, `-` for unknown, no borders, nothing cut off. */

export interface Column {
  readonly title: string;
  /** Numbers go to the right. Default left. */
  readonly align?: "left" | "right";
}

/** Rows are cells in the order of the columns; `undefined` is unknown. Cells may hold colour and wide characters. No newline at the end. */
export function renderTable(columns: readonly Column[], rows: readonly (readonly (string | undefined)[])[]): string {
  const lines = [columns.map((column) => column.title), ...rows.map((row) => columns.map((_, at) => row[at] ?? "-"))];
  const widths = columns.map((_, at) => lines.reduce((most, line) => Math.max(most, widthOf(line[at] ?? "")), 0));
  return lines.map((line) => renderLine(line, columns, widths)).join("\n");
}

/** Nearly every cell is plain text, whose width is its length. */
function widthOf(cell: string): number {
  return /^[ -~]*$/.test(cell) ? cell.length : Bun.stringWidth(cell);
}

function renderLine(line: readonly string[], columns: readonly Column[], widths: readonly number[]): string {
  const cells = line.map((cell, at) => {
    const room = " ".repeat(Math.max(0, (widths[at] ?? 0) - widthOf(cell)));
    return columns[at]?.align === "right" ? `${room}${cell}` : `${cell}${room}`;
  });
  return cells.join("  ").trimEnd();
}
