/**
 * Parameters and the label of a model from the tensors in its safetensors headers (reference/weights.md, section 4.3). Packed formats
 * are counted by what they hold; scales, zero points and the like belong to the packing and are left out.
 */
import { elementsOf, type SafetensorsTensor } from "./safetensors.ts";

export interface Packing {
  /** Bits of one value in a packed I32. */
  readonly packed_bits?: number | undefined;
  /** Plain U8 weights hold two 4-bit values. */
  readonly fp4?: boolean | undefined;
}

export interface TensorTotals {
  /** Absent when a packed tensor does not say how many values it holds. */
  readonly parameters: number | undefined;
  /** By dtype as the header writes it. */
  readonly bytes: ReadonlyMap<string, number>;
}

/** GPTQ and AWQ, compressed-tensors, FP8 and FP4 scales, MXFP4 of gpt-oss, bitsandbytes. */
const PACKING_PARTS =
  /(?:^|[._])(?:scales|qzeros|g_idx|weight_g_idx|weight_scale\w*|weight_global_scale|weight_zero_point|weight_shape|input_scale\w*|input_global_scale|[kvq]_scale|SCB|absmax|nested_absmax|quant_map|nested_quant_map|quant_state\.\w+)$/;

/** Totals of one file. */
export function tensorTotals(tensors: readonly SafetensorsTensor[], packing: Packing): TensorTotals {
  const bytes = new Map<string, number>();
  let parameters: number | undefined = 0;
  for (const tensor of tensors) {
    bytes.set(tensor.dtype, (bytes.get(tensor.dtype) ?? 0) + tensor.end - tensor.begin);
    const held = PACKING_PARTS.test(tensor.name) ? 0 : valuesIn(tensor, packing);
    parameters = parameters === undefined || held === undefined ? undefined : parameters + held;
  }
  return { parameters, bytes };
}

/** Parameters of all files, and the dtype with most bytes, lower case. */
export function modelTotals(files: readonly TensorTotals[]): {
  readonly parameters?: number | undefined;
  readonly dtype?: string | undefined;
} {
  const bytes = new Map<string, number>();
  let parameters: number | undefined = 0;
  for (const file of files) {
    parameters = parameters === undefined || file.parameters === undefined ? undefined : parameters + file.parameters;
    for (const [dtype, size] of file.bytes) bytes.set(dtype, (bytes.get(dtype) ?? 0) + size);
  }
  const most = [...bytes].sort((a, b) => b[1] - a[1])[0];
  return {
    parameters: parameters !== undefined && Number.isSafeInteger(parameters) && parameters > 0 ? parameters : undefined,
    dtype: most === undefined || most[1] === 0 ? undefined : most[0].toLowerCase(),
  };
}

function valuesIn(tensor: SafetensorsTensor, packing: Packing): number | undefined {
  const elements = elementsOf(tensor);
  const last = tensor.name.slice(tensor.name.lastIndexOf(".") + 1);
  if (tensor.dtype === "I32" && (last === "qweight" || last === "weight_packed")) {
    // Rounded: 3-bit values straddle the words, and only all words together hold a whole number.
    return packing.packed_bits === undefined ? undefined : Math.round((elements * 32) / packing.packed_bits);
  }
  if (tensor.dtype !== "U8") return elements;
  const holdsTwo = last === "weight_packed" || last.endsWith("_blocks") || packing.fp4 === true;
  return holdsTwo ? elements * 2 : elements;
}
