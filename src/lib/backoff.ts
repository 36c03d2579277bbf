/** How long to wait before the next try. Pure. */

export interface Backoff {
  /** Longest wait before the second try, ms; doubled with each failure in a row. */
  readonly firstMs: number;
  /** No wait is longer, ms. */
  readonly maxMs: number;
}

/**
 * The wait after `failures` failures in a row (1 and more), ms. Spread evenly over the upper nine tenths of the window, so that a thousand
 * nodes which lost one server do not come back in one moment. `chance` is in [0, 1).
 */
export function backoffMs(failures: number, chance: number, { firstMs, maxMs }: Backoff): number {
  // 2 ** 30 is beyond any maximum in use, and the product stays a number.
  const window = Math.min(maxMs, firstMs * 2 ** Math.min(Math.max(failures, 1) - 1, 30));
  return Math.round(window * (0.1 + 0.9 * chance));
}
