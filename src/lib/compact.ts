type Compact<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** Leaves out the keys without a value: in JSON and in our types an unknown is an absent key. */
export function compact<T extends object>(record: T): Compact<T> {
  const known = Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
  // Exactly the keys whose value may be undefined can be missing now, which is what the type says.
  return known as Compact<T>;
}
