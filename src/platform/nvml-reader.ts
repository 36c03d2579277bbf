/** Calls NVML and reads what it wrote: buffers are zeroed before each call and read only after a 0. */
import { codeWord, NVML_CODES, NVML_STRUCTS, type NvmlSymbol, TEXT_BYTES } from "./nvml-layout.ts";
import type { NvmlLibrary, NvmlValue } from "./nvml-library.ts";

/** Longer than every struct that is used, so that a newer driver with a longer one does not write past the end. */
const SCRATCH_BYTES = 256;

/** An output buffer of one call. */
export class Scratch {
  readonly bytes: Uint8Array;
  private readonly view: DataView;

  constructor(size = SCRATCH_BYTES) {
    // Over an explicit buffer: the storage of a small array moves when its buffer is looked at later.
    const buffer = new ArrayBuffer(size);
    this.bytes = new Uint8Array(buffer);
    this.view = new DataView(buffer);
  }

  clear(): Scratch {
    this.bytes.fill(0);
    return this;
  }

  u32(offset = 0): number {
    return this.view.getUint32(offset, true);
  }

  i32(offset = 0): number {
    return this.view.getInt32(offset, true);
  }

  u64(offset = 0): bigint {
    return this.view.getBigUint64(offset, true);
  }

  f64(offset = 0): number {
    return this.view.getFloat64(offset, true);
  }

  setU32(offset: number, value: number): Scratch {
    this.view.setUint32(offset, value, true);
    return this;
  }

  /** Up to the first NUL, or to the end of the field. Printable ASCII; anything else becomes "?". */
  text(offset = 0, length = TEXT_BYTES): string | undefined {
    const field = this.bytes.subarray(offset, offset + length);
    const end = field.indexOf(0);
    const text = String.fromCharCode(...field.subarray(0, end < 0 ? length : end)).replace(/[^\x20-\x7e]/g, "?");
    return text.trim() === "" ? undefined : text;
  }
}

/** One card or MIG device of a snapshot: a handle, what failed on it so far, and whether it is lost. */
export interface Device {
  readonly handle: bigint;
  /** Shared by a card and its MIG devices: once the card is lost, nothing more is asked of it. */
  readonly fate: { lost: { readonly symbol: string; readonly code: number; readonly word: string } | undefined };
  readonly codes: Record<string, number>;
}

export interface FieldId {
  readonly id: number;
  readonly scope?: number;
}

export class Reader {
  private readonly library: NvmlLibrary;
  private readonly outs = [new Scratch(), new Scratch(), new Scratch(), new Scratch()] as const;

  constructor(library: NvmlLibrary) {
    this.library = library;
  }

  /** A cleared output buffer; `at` tells those of one call apart. */
  out(at: 0 | 1 | 2 | 3 = 0): Scratch {
    return this.outs[at].clear();
  }

  system(symbol: NvmlSymbol, ...args: readonly NvmlValue[]): number {
    return this.library.call(symbol, ...args);
  }

  /** The code of a call on a device. A code other than 0 is kept beside the values; `normal` ones are an answer and are not. */
  ask(device: Device, symbol: NvmlSymbol, args: readonly NvmlValue[], normal: readonly number[] = []): number {
    if (device.fate.lost !== undefined) return NVML_CODES.gpuIsLost;
    const code = this.library.call(symbol, device.handle, ...args);
    if (code !== NVML_CODES.success && !normal.includes(code)) this.keep(device, symbol, code);
    return code;
  }

  /** The code of a call, or of an entry of a batch, beside the device's values. */
  keep(device: Device, name: string, code: number): void {
    if (code === NVML_CODES.gpuIsLost) device.fate.lost = { symbol: name, code, word: codeWord(code) };
    device.codes[name] ??= code;
  }

  u32(device: Device, symbol: NvmlSymbol, before: readonly number[] = []): number | undefined {
    const out = this.out();
    return this.ask(device, symbol, [...before, out.bytes]) === NVML_CODES.success ? out.u32() : undefined;
  }

  u64(device: Device, symbol: NvmlSymbol, before: readonly number[] = []): number | undefined {
    const out = this.out();
    return this.ask(device, symbol, [...before, out.bytes]) === NVML_CODES.success ? Number(out.u64()) : undefined;
  }

  text(device: Device, symbol: NvmlSymbol): string | undefined {
    const out = this.out();
    return this.ask(device, symbol, [out.bytes, TEXT_BYTES]) === NVML_CODES.success ? out.text() : undefined;
  }

  /** Two values of one call, such as the current and the pending mode. */
  pair(device: Device, symbol: NvmlSymbol): readonly [number, number] | undefined {
    const first = this.out(0);
    const second = this.out(1);
    return this.ask(device, symbol, [first.bytes, second.bytes]) === NVML_CODES.success ? [first.u32(), second.u32()] : undefined;
  }

  /** A struct that carries its version, which must be set before the call. */
  versioned(device: Device, symbol: NvmlSymbol, version: number): Scratch | undefined {
    const out = this.out().setU32(0, version);
    return this.ask(device, symbol, [out.bytes]) === NVML_CODES.success ? out : undefined;
  }

  /**
   * Several field values in one call, in the order asked. `undefined` for one that the card does not have: the call can be fine while
   * an entry is not, so each entry's own code counts. `scope` tells the links of a card apart.
   */
  fields(device: Device, wanted: readonly FieldId[]): readonly (number | undefined)[] {
    const layout = NVML_STRUCTS.nvmlFieldValue_t;
    const out = new Scratch(wanted.length * layout.size + SCRATCH_BYTES);
    for (const [at, { id, scope }] of wanted.entries()) {
      out.setU32(at * layout.size + layout.fieldId, id).setU32(at * layout.size + layout.scopeId, scope ?? 0);
    }
    if (this.ask(device, "nvmlDeviceGetFieldValues", [wanted.length, out.bytes]) !== NVML_CODES.success) return [];
    return wanted.map(({ id }, at) => {
      const code = out.u32(at * layout.size + layout.nvmlReturn);
      if (code === NVML_CODES.success) return fieldValue(out, at * layout.size);
      this.keep(device, `field ${id}`, code);
      return undefined;
    });
  }

  systemText(symbol: NvmlSymbol): string | undefined {
    const out = this.out();
    return this.system(symbol, out.bytes, TEXT_BYTES) === NVML_CODES.success ? out.text() : undefined;
  }
}

/** A field's value by its type; `undefined` for a type that is not known. */
function fieldValue(out: Scratch, from: number): number | undefined {
  const at = from + NVML_STRUCTS.nvmlFieldValue_t.value;
  switch (out.u32(from + NVML_STRUCTS.nvmlFieldValue_t.valueType)) {
    case 0:
      return out.f64(at);
    case 1:
      return out.u32(at);
    case 2:
    case 3:
      return Number(out.u64(at));
    case 4:
      return Number(BigInt.asIntN(64, out.u64(at)));
    case 5:
      return out.i32(at);
    case 6:
      return out.u32(at) & 0xffff;
    default:
      return undefined;
  }
}
