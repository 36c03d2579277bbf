/** Colour behind a switch: off, every function gives its text back. */

export interface Painter {
  green(text: string): string;
  red(text: string): string;
  yellow(text: string): string;
  bold(text: string): string;
}

export function painter(on: boolean): Painter {
  const paint =
    (open: number, close: number) =>
    (text: string): string =>
      on ? `\u001b[${open}m${text}\u001b[${close}m` : text;
  return { green: paint(32, 39), red: paint(31, 39), yellow: paint(33, 39), bold: paint(1, 22) };
}
