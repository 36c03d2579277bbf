/** Where a program listens, as people write it. */
import * as v from "valibot";

export const ListenAddress = v.pipe(
  v.string(),
  v.regex(/^(?:\[[0-9a-f:.]+\]|[a-z0-9.-]+):\d{1,5}$/i, "ADDRESS:PORT, such as 0.0.0.0:8400 or [::]:8400"),
);
