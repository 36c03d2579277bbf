/** How an answer is shown. */
export interface View {
  readonly color: boolean;
  /** Width of the terminal, `undefined` when there is none: then nothing is shortened. */
  readonly columns: number | undefined;
  /** Its height, likewise. */
  readonly rows?: number | undefined;
}
