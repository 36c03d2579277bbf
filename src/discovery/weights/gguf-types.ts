/**
 * Tensor and file types of GGUF. Source: ggml-org/ggml include/ggml.h (`ggml_type`), llama.cpp include/llama.h (`llama_ftype`).
 */

export interface GgufTensorType {
  readonly name: string;
  /** Elements per block, and the bytes that one block takes. */
  readonly block: number;
  readonly bytes: number;
}

/** Known tensor types by id. */
export const GGUF_TENSOR_TYPES: ReadonlyMap<number, GgufTensorType> = new Map(
  (
    [
      [0, "f32", 1, 4],
      [1, "f16", 1, 2],
      [2, "q4_0", 32, 18],
      [3, "q4_1", 32, 20],
      [6, "q5_0", 32, 22],
      [7, "q5_1", 32, 24],
      [8, "q8_0", 32, 34],
      [9, "q8_1", 32, 36],
      [10, "q2_k", 256, 84],
      [11, "q3_k", 256, 110],
      [12, "q4_k", 256, 144],
      [13, "q5_k", 256, 176],
      [14, "q6_k", 256, 210],
      [15, "q8_k", 256, 292],
      [16, "iq2_xxs", 256, 66],
      [17, "iq2_xs", 256, 74],
      [18, "iq3_xxs", 256, 98],
      [19, "iq1_s", 256, 50],
      [20, "iq4_nl", 32, 18],
      [21, "iq3_s", 256, 110],
      [22, "iq2_s", 256, 82],
      [23, "iq4_xs", 256, 136],
      [24, "i8", 1, 1],
      [25, "i16", 1, 2],
      [26, "i32", 1, 4],
      [27, "i64", 1, 8],
      [28, "f64", 1, 8],
      [29, "iq1_m", 256, 56],
      [30, "bf16", 1, 2],
      [34, "tq1_0", 256, 54],
      [35, "tq2_0", 256, 66],
      [39, "mxfp4", 32, 17],
      [40, "nvfp4", 64, 36],
      [41, "q1_0", 128, 18],
      [42, "q2_0", 64, 18],
    ] as const
  ).map(([id, name, block, bytes]) => [id, { name, block, bytes }]),
);

/** Types that ggml has taken out again: nothing reads such a file any more. */
export const REMOVED_TENSOR_TYPES: ReadonlySet<number> = new Set([4, 5, 31, 32, 33, 36, 37, 38]);
export const NEWEST_TENSOR_TYPE = Math.max(...GGUF_TENSOR_TYPES.keys());

/** `general.file_type`: what the file was quantized as, and the tensor type that makes up most of it. */
export const GGUF_FILE_TYPES: ReadonlyMap<number, { readonly name: string; readonly mostly: string }> = new Map(
  (
    [
      [2, "q4_0", "q4_0"],
      [3, "q4_1", "q4_1"],
      [7, "q8_0", "q8_0"],
      [8, "q5_0", "q5_0"],
      [9, "q5_1", "q5_1"],
      [10, "q2_k", "q2_k"],
      [11, "q3_k_s", "q3_k"],
      [12, "q3_k_m", "q3_k"],
      [13, "q3_k_l", "q3_k"],
      [14, "q4_k_s", "q4_k"],
      [15, "q4_k_m", "q4_k"],
      [16, "q5_k_s", "q5_k"],
      [17, "q5_k_m", "q5_k"],
      [18, "q6_k", "q6_k"],
      [19, "iq2_xxs", "iq2_xxs"],
      [20, "iq2_xs", "iq2_xs"],
      [21, "q2_k_s", "q2_k"],
      [22, "iq3_xs", "iq3_s"],
      [23, "iq3_xxs", "iq3_xxs"],
      [24, "iq1_s", "iq1_s"],
      [25, "iq4_nl", "iq4_nl"],
      [26, "iq3_s", "iq3_s"],
      [27, "iq3_m", "iq3_s"],
      [28, "iq2_s", "iq2_xs"],
      [29, "iq2_m", "iq2_s"],
      [30, "iq4_xs", "iq4_xs"],
      [31, "iq1_m", "iq1_m"],
      [36, "tq1_0", "tq1_0"],
      [37, "tq2_0", "tq2_0"],
      [38, "mxfp4_moe", "mxfp4"],
    ] as const
  ).map(([id, name, mostly]) => [id, { name, mostly }]),
);
