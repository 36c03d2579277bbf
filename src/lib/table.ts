/** Aligned columns: two spaces between them, numbers to the right, `-` for unknown, no borders, nothing cut off. */

export interface Column {
  readonly title: string;
  /** Numbers go to the right. Default left. */
  readonly align?: "left" | "right";
}

/** Rows are cells in the order of the columns; `undefined` is unknown. Cells may hold colour and wide characters. No newline at the end. */
export function renderTable(columns: readonly Column[], rows: readonly (readonly (string | undefined)[])[]): string {
  const lines = [columns.map((column) => column.title), ...rows.map((row) => columns.map((_, at) => row[at] ?? "-"))];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => Bun.stringWidth(line[at] ?? ""))));
  return lines.map((line) => renderLine(line, columns, widths)).join("\n");
}

function renderLine(line: readonly string[], columns: readonly Column[], widths: readonly number[]): string {
  const cells = line.map((cell, at) => {
    const room = " ".repeat(Math.max(0, (widths[at] ?? 0) - Bun.stringWidth(cell)));
    return columns[at]?.align === "right" ? `${room}${cell}` : `${cell}${room}`;
  });
  return cells.join("  ").trimEnd();
}
