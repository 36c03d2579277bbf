/**
 * What the scanner will read at most. Everything on disk may come from a stranger, so each number is checked before memory is taken.
 * Values: reference/weights.md, sections 3.1 and 3.2, where their sources are named; those without a source there are ours.
 */
const MIB = 1024 * 1024;

/** Reads of one scan that are under way at once: enough to hide a network disk's latency, few enough not to starve an engine's load. */
export const CONCURRENT_CALLS = 8;
/** One call to the machine. A hung network mount costs this and no more. */
export const CALL_TIME_MS = 10_000;
/** Calls under one root that may run into that limit before the rest of the root is given up: the disk is gone, not slow. */
export const MAX_TIMEOUTS = 3;
/** All reads of one file's header together. */
export const FILE_TIME_MS = 30_000;

export const MAX_DEPTH = 6;
/** Names looked at under one root. A store of ten thousand models stays below; a root that is a home folder does not. */
export const MAX_ENTRIES = 100_000;
/** Problems listed per model and names listed per problem; the rest is counted. */
export const MAX_PROBLEMS = 20;
export const MAX_WARNINGS = 100;

export const MAX_CONFIG_BYTES = 10 * MIB;
export const MAX_JSON_BYTES = MIB;
/** Indexes of 60 MB exist. Above this the index is left unread: numbering and shard headers say the same. */
export const MAX_INDEX_BYTES = 32 * MIB;
export const MAX_JSON_DEPTH = 64;
/** A git-lfs pointer is below this (git-lfs specification, "The Pointer"). */
export const LFS_POINTER_BYTES = 1024;

export const SAFETENSORS = {
  header_min_bytes: 2,
  header_max_bytes: 25_000_000,
  shards: 10_000,
  dimension: 2 ** 32,
  dimensions: 16,
  name_bytes: 512,
} as const;

export const GGUF = {
  window_bytes: MIB,
  header_max_bytes: 50_000_000,
  keys: 100_000,
  tensors: 1_000_000,
  key_bytes: 65_535,
  text_bytes: 10_000_000,
  /** Longer texts (chat templates, licenses) are stepped over. */
  kept_text_bytes: 4_096,
  /** Longer lists (the vocabulary) are stepped over; lists per layer stay below. */
  kept_list_items: 4_096,
  nesting: 4,
  dimensions: 4,
  dimension: 2 ** 32,
  name_bytes: 63,
  alignment: 4_096,
} as const;
