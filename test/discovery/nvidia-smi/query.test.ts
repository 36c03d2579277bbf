import { expect, test } from "bun:test";
import { parseQuery, type RawCard } from "../../../src/discovery/nvidia-smi/query.ts";
import { NAME, processText, queryText, type SmiCard, smiBus, smiUuid } from "../../support/smi-texts.ts";

function one(card: Partial<SmiCard>): RawCard {
  const report = parseQuery(queryText([{ n: 0, ...card }]));
  const [found] = report.cards;
  if (found === undefined || report.warnings.length > 0) throw new Error(`not read: ${report.warnings.join()}`);
  return found;
}

test("versions, the count of the machine and the cards in document order are read", () => {
  const report = parseQuery(queryText([{ n: 7 }, { n: 2 }]));
  expect(report).toMatchObject({ driverVersion: "580.65.06", cudaVersion: "13.0", attachedGpus: 2, warnings: [] });
  expect(report.cards.map((card) => [card.uuid, card.busId, card.minor])).toEqual([
    [smiUuid(7), smiBus(7), 7],
    [smiUuid(2), smiBus(2), 2],
  ]);
  expect(report.cards[0]).toMatchObject({ name: NAME, memoryTotalMb: 81559, memoryUsedMb: 1024, memoryFreeMb: 79984, temperatureC: 41 });
  expect(report.cards[0]).toMatchObject({
    migCurrent: "disabled",
    migDevices: [],
    processes: [],
    readable: true,
    lost: false,
    errorTexts: [],
  });
});

test("the version of the driver is the number before a note, or the kernel module's where only that is told", () => {
  expect(parseQuery(queryText([], "610.57.04 [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]")).driverVersion).toBe(
    "610.57.04",
  );
  const renamed = queryText([{ n: 0 }])
    .replaceAll("driver_version", "kmd_version")
    .replaceAll("cuda_version", "cuda_umd_version");
  expect(parseQuery(renamed)).toMatchObject({ driverVersion: "580.65.06", cudaVersion: "13.0" });
  expect(parseQuery(queryText([]).replace("13.0", "Not Found")).cudaVersion).toBeUndefined();
  const both = queryText([], "Deprecated, see KMD Version").replace("<cuda_version>", "<kmd_version>610.57.04</kmd_version><cuda_version>");
  expect(parseQuery(both).driverVersion).toBe("610.57.04");
});

test("a blank or warning line before the declaration, a missing declaration and Windows line ends change nothing", () => {
  const text = queryText([{ n: 0 }]);
  const report = parseQuery(text);
  expect(parseQuery(`\nWARNING: something\n${text}`)).toEqual(report);
  expect(parseQuery(text.slice(text.indexOf("<nvidia_smi_log")))).toEqual(report);
  expect(parseQuery(text.replaceAll("\n", "\r\n"))).toEqual(report);
  expect(parseQuery(`${text}WARNING: infoROM is corrupted at gpu 0000:10:00.0\n`)).toEqual(report);
});

test("the memory that is not told is unknown, and so is a total of nothing", () => {
  expect(one({ memory: "<total>N/A</total><used>Insufficient Permissions</used>" })).toMatchObject({
    memoryTotalMb: undefined,
    memoryUsedMb: undefined,
  });
  expect(one({ memory: "<total>0 MiB</total><used>0 MiB</used>" })).toMatchObject({ memoryTotalMb: undefined, memoryUsedMb: 0 });
  expect(one({ memory: "N/A" })).toMatchObject({ memoryTotalMb: undefined });
});

test("tags that repeat under other parents are not mistaken for the card's", () => {
  const card = one({
    memory: "",
    more: `<bar1_memory_usage><total>128 MiB</total><used>5 MiB</used></bar1_memory_usage>
      <cc_protected_memory_usage><total>64 MiB</total></cc_protected_memory_usage>
      <module_power_readings><instant_power_draw>999.00 W</instant_power_draw></module_power_readings>
      <gpu_memory_power_readings><average_power_draw>88.00 W</average_power_draw></gpu_memory_power_readings>
      <accounted_processes><process_info><pid>99</pid></process_info></accounted_processes>`,
  });
  expect(card).toMatchObject({ memoryTotalMb: undefined, memoryUsedMb: undefined, powerW: undefined, processes: [] });
});

test("power has had three names and the limit two; the instantaneous value counts where it is told", () => {
  const power = (inner: string): readonly (number | undefined)[] => {
    const card = one({ more: inner });
    return [card.powerW, card.powerLimitW];
  };
  expect(power("<power_readings><power_draw>70.50 W</power_draw><power_limit>300.00 W</power_limit></power_readings>")).toEqual([
    70.5, 300,
  ]);
  expect(
    power(
      "<gpu_power_readings><power_draw>71.00 W</power_draw><current_power_limit>350.00 W</current_power_limit><max_power_limit>400.00 W</max_power_limit></gpu_power_readings>",
    ),
  ).toEqual([71, 350]);
  const draw = (average: string, instant: string): string =>
    `<gpu_power_readings><average_power_draw>${average}</average_power_draw><instant_power_draw>${instant}</instant_power_draw></gpu_power_readings>`;
  expect(power(draw("72.00 W", "73.00 W"))).toEqual([73, undefined]);
  expect(power(draw("72.00 W", "N/A"))).toEqual([72, undefined]);
  expect(power("<power_readings>N/A</power_readings>")).toEqual([undefined, undefined]);
});

test("uncorrectable errors are summed once, in the words of each generation", () => {
  const counts = (volatile: string, aggregate = ""): readonly (number | undefined)[] => {
    const card = one({ more: `<ecc_errors><volatile>${volatile}</volatile><aggregate>${aggregate}</aggregate></ecc_errors>` });
    return [card.ecc.volatileUncorrectable, card.ecc.aggregateUncorrectable];
  };
  expect(
    counts("<single_bit><total>9</total></single_bit><double_bit><device_memory>2</device_memory><total>3</total></double_bit>"),
  ).toEqual([3, undefined]);
  expect(counts("<sram_uncorrectable>1</sram_uncorrectable><dram_uncorrectable>2</dram_uncorrectable>")).toEqual([3, undefined]);
  const parity = "<sram_uncorrectable_parity>1</sram_uncorrectable_parity><sram_uncorrectable_secded>2</sram_uncorrectable_secded>";
  expect(counts(`${parity}<dram_correctable>50</dram_correctable>`, parity)).toEqual([3, 3]);
  expect(counts("<sram_uncorrectable>N/A</sram_uncorrectable>")).toEqual([undefined, undefined]);
  expect(counts(`<sram_uncorrectable>3</sram_uncorrectable>${parity}<dram_uncorrectable>4</dram_uncorrectable>`)).toEqual([7, undefined]);
  const unsummed = "<double_bit><device_memory>2</device_memory><l2_cache>1</l2_cache><cbu>N/A</cbu><total>N/A</total></double_bit>";
  expect(counts(unsummed)).toEqual([3, undefined]);
  const huge = String(Number.MAX_SAFE_INTEGER);
  expect(counts(`<sram_uncorrectable>${huge}</sram_uncorrectable><dram_uncorrectable>${huge}</dram_uncorrectable>`)).toEqual([
    undefined,
    undefined,
  ]);
});

test("blocks that collapse to a text have no children", () => {
  const card = one({
    more: "<remapped_rows>N/A</remapped_rows><clocks_throttle_reasons>N/A</clocks_throttle_reasons><ecc_errors>N/A</ecc_errors><fabric>N/A</fabric>",
  });
  expect(card.remappedRows).toEqual({ pending: undefined, failure: undefined, correctable: undefined, uncorrectable: undefined });
  expect(card.clockReasons.hwSlowdown).toBeUndefined();
  expect(card.fabric).toBeUndefined();
});

test("a lost card is told by any of its values", () => {
  expect(one({ more: "<remapped_rows>GPU is lost</remapped_rows>" })).toMatchObject({ lost: true, errorTexts: ["GPU is lost"] });
  const process = processText(7, "GPU is lost", "1 MiB");
  expect(one({ processes: process })).toMatchObject({ name: NAME, lost: false, errorTexts: [] });
});

test("errors in place of values are kept, each once", () => {
  const card = one({ more: "<fan_speed>Unknown Error</fan_speed><a>[Unknown Error]</a><b>GPU requires reset</b>" });
  expect(card.errorTexts).toEqual(["Unknown Error", "GPU requires reset"]);
  expect(one({ more: "<fan_speed>System is not in ready state</fan_speed>" }).errorTexts).toEqual(["System is not in ready state"]);
  expect(one({ more: "<ecc_errors>N/A</ecc_errors><fan_speed>N/A</fan_speed>" }).errorTexts).toEqual([]);
});

test("reasons for slow clocks are read under the old name and the new one", () => {
  for (const word of ["throttle", "event"]) {
    const reasons = (name: string, value: string): string => `<clocks_${word}_reason_${name}>${value}</clocks_${word}_reason_${name}>`;
    const block = `${reasons("hw_slowdown", "Active")}${reasons("hw_thermal_slowdown", "Not Active")}${reasons("sw_power_cap", "Active")}`;
    expect(one({ more: `<clocks_${word}_reasons>${block}</clocks_${word}_reasons>` }).clockReasons).toEqual({
      hwSlowdown: true,
      hwThermal: false,
      hwPowerBrake: undefined,
      swThermal: undefined,
      swPowerCap: true,
    });
  }
});

test("pages waiting to be retired are told under either name", () => {
  const pages = (inner: string): boolean | undefined => one({ more: `<retired_pages>${inner}</retired_pages>` }).retiredPagesPending;
  expect(pages("<pending_retirement>No</pending_retirement><pending_blacklist>Yes</pending_blacklist>")).toBe(true);
  expect(pages("<pending_retirement>Yes</pending_retirement>")).toBe(true);
  expect(pages("<pending_blacklist>No</pending_blacklist>")).toBe(false);
  expect(pages("<pending_retirement>N/A</pending_retirement>")).toBeUndefined();
});

test("what asks for a reset is read, and None asks for nothing", () => {
  expect(one({ more: "<gpu_recovery_action>None</gpu_recovery_action>" }).recoveryAction).toBeUndefined();
  expect(one({ more: "<gpu_recovery_action>Drain and Reset</gpu_recovery_action>" }).recoveryAction).toBe("Drain and Reset");
  const status = "<reset_required>Yes</reset_required><drain_and_reset_recommended>No</drain_and_reset_recommended>";
  expect(one({ more: `<gpu_reset_status>${status}</gpu_reset_status>` })).toMatchObject({
    resetRequired: true,
    drainAndResetRecommended: false,
  });
});

test("MIG devices have ids that are not dense, and instances of one GPU instance repeat its memory", () => {
  const card = one({
    mig: "Enabled/Disabled",
    instances: [
      { device: 0, gi: 9, ci: 0, memoryMb: 40448 },
      { device: 1, gi: 9, ci: 1, memoryMb: 40448 },
      { device: 4, gi: 2, ci: 0 },
    ],
  });
  expect([card.migCurrent, card.migPending]).toEqual(["enabled", "disabled"]);
  expect(card.migDevices.map((mig) => [mig.index, mig.gpuInstanceId, mig.computeInstanceId, mig.memoryTotalMb, mig.smCount])).toEqual([
    [0, 9, 0, 40448, 16],
    [1, 9, 1, 40448, 16],
    [4, 2, 0, 9984, 16],
  ]);
});

test("one MIG device, one process and several are all lists", () => {
  expect(one({ instances: [{ device: 0, gi: 1, ci: 0 }] }).migDevices).toHaveLength(1);
  expect(one({ processes: processText(11, "a", "1 MiB") }).processes).toHaveLength(1);
});

test("processes may be none, not told, or of other users", () => {
  expect(one({ processes: "\n" }).processes).toEqual([]);
  expect(one({ processes: "N/A" }).processes).toBeUndefined();
  expect(one({ processes: "Insufficient Permissions" }).processes).toBeUndefined();
  const { processes } = one({
    processes: [
      processText(4294, "python3 -m serve --a=1,b &amp; &lt;c&gt;", "70000 MiB", "9", "0"),
      processText(5, "[Insufficient Permissions]", "N/A"),
      processText(6, "", "1 MiB"),
    ].join(""),
  });
  expect(processes).toEqual([
    { pid: 4294, name: "python3 -m serve --a=1,b & <c>", memoryMb: 70000, gpuInstanceId: 9, computeInstanceId: 0, type: "C" },
    { pid: 5, name: undefined, memoryMb: undefined, gpuInstanceId: undefined, computeInstanceId: undefined, type: "C" },
    { pid: 6, name: undefined, memoryMb: 1, gpuInstanceId: undefined, computeInstanceId: undefined, type: "C" },
  ]);
});

test("a process's name is kept whole, decoded once, and cannot command a terminal", () => {
  const name = (written: string): string | undefined => one({ processes: processText(1, written, "1 MiB") }).processes?.[0]?.name;
  const long = `python3 ${"--flag=value,".repeat(100)}`;
  expect(name(long)).toBe(long);
  expect(name("&quot;a&quot; &apos;b&apos; &#99;&#x64; &amp;lt; &#38;amp;")).toBe("\"a\" 'b' cd &lt; &amp;");
  expect(name("a&#27;[2J&#x1b;[0m &#0; &#x110000; &none;")).toBe("a\\u{1b}[2J\\u{1b}[0m \\u{0} &#x110000; &none;");
});

test("the driver's word for not MIG is no instance id", () => {
  const [process] = one({ processes: processText(1, "a", "1 MiB", "4294967295", "4294967295") }).processes ?? [];
  expect([process?.gpuInstanceId, process?.computeInstanceId]).toEqual([undefined, undefined]);
});

test("an NVLink fabric has a state of its own; an error as its status is an answer", () => {
  const fabric = (inner: string): RawCard["fabric"] => one({ more: `<fabric>${inner}</fabric>` }).fabric;
  expect(fabric("<state>N/A</state><status>N/A</status>")).toBeUndefined();
  expect(fabric("<state>In Progress</state><status>N/A</status><cliqueId>N/A</cliqueId>")).toMatchObject({
    state: "In Progress",
    status: undefined,
    cliqueId: undefined,
  });
  const done =
    "<state>Completed</state><status>Success</status><cliqueId>32766</cliqueId><clusterUuid>5eed0000-0000-4000-8000-0000000000aa</clusterUuid>";
  expect(fabric(`${done}<health><summary>Healthy</summary></health>`)).toEqual({
    state: "Completed",
    status: "Success",
    cliqueId: 32766,
    clusterUuid: "5eed0000-0000-4000-8000-0000000000aa",
    healthSummary: "Healthy",
    health: {},
  });
  const parts = "<summary>Unhealthy</summary><bandwidth>Degraded</bandwidth><route_unhealthy>True</route_unhealthy>";
  expect(fabric(`${done}<health>${parts}<incorrect_configuration>N/A</incorrect_configuration></health>`)).toMatchObject({
    healthSummary: "Unhealthy",
    health: { bandwidth: "Degraded", route_unhealthy: "True" },
  });
  expect(fabric(`${done}<health>N/A</health>`)).toMatchObject({ healthSummary: undefined, health: {} });
  expect(fabric("<state>Completed</state><status>Unknown Error</status>")?.status).toBe("Unknown Error");
});

test("the link of the bus is read where it is told", () => {
  const link = `<pci><pci_bus_id>${smiBus(0)}</pci_bus_id><pci_gpu_link_info><pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>1</current_link_gen></pcie_gen><link_widths><max_link_width>16x</max_link_width><current_link_width>N/A</current_link_width></link_widths></pci_gpu_link_info></pci>`;
  const text = queryText([{ n: 0 }]).replace(/\t*<pci>.*<\/pci>/s, link);
  expect(parseQuery(text).cards[0]?.pcie).toEqual({ genCurrent: 1, genMax: 5, widthCurrent: undefined, widthMax: 16 });
});

test("a cut off document costs the card that was cut", () => {
  const text = queryText([{ n: 0 }, { n: 1 }]);
  const report = parseQuery(text.slice(0, text.lastIndexOf("<compute_mode>")));
  expect(report.cards.map((card) => [card.busId, card.uuid, card.readable, card.memoryTotalMb])).toEqual([
    [smiBus(0), smiUuid(0), true, 81559],
    [smiBus(1), undefined, false, undefined],
  ]);
  expect(report.warnings).toEqual([
    "nvidia-smi -q -x: the output is cut off",
    `nvidia-smi -q -x: the part about card ${smiBus(1)} cannot be read`,
  ]);
});

test("a document that was cut between two cards says that it was", () => {
  const text = queryText([{ n: 0 }, { n: 1 }]);
  const report = parseQuery(text.slice(0, text.indexOf("</gpu>") + 6));
  expect([report.cards.length, report.attachedGpus, report.warnings]).toEqual([1, 2, ["nvidia-smi -q -x: the output is cut off"]]);
});

test("a broken card in the middle costs itself alone", () => {
  const text = queryText([{ n: 0 }, { n: 1 }, { n: 2 }]).replace(`<uuid>${smiUuid(1)}</uuid>`, `<uuid>${smiUuid(1)}</uu`);
  const report = parseQuery(text);
  expect(report.cards.map((card) => card.uuid)).toEqual([smiUuid(0), undefined, smiUuid(2)]);
  expect(report.warnings).toEqual([`nvidia-smi -q -x: the part about card ${smiBus(1)} cannot be read`]);
});

test("a hole that joins the parts of two cards gives neither the values of the other", () => {
  const text = queryText([{ n: 0 }, { n: 1 }]);
  for (const [first, last] of [
    ["<fb_memory_usage>", "<product_name>"],
    ["<pci>", "<pci>"],
  ]) {
    const to = text.indexOf(last ?? "", text.indexOf("</gpu>"));
    const report = parseQuery(text.slice(0, text.indexOf(first ?? "")) + text.slice(to));
    expect(report.cards.map((card) => [card.readable, card.uuid, card.memoryTotalMb])).toEqual([[false, undefined, undefined]]);
  }
});

test("a block that nobody reads and that lost its end does not swallow the next card", () => {
  const text = queryText([{ n: 0 }, { n: 1 }]).replace("</supported_clocks>", "");
  expect(parseQuery(text).cards.map((card) => [card.readable, card.uuid])).toEqual([
    [false, undefined],
    [true, smiUuid(1)],
  ]);
});

test("an entity that a document declares is not expanded and no DTD is asked for", () => {
  const bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY f SYSTEM "file:///etc/passwd">]>';
  const text = queryText([
    { n: 0, name: "&b;" },
    { n: 1, name: "&f;" },
  ]).replace(/<!DOCTYPE[^>]*>/, bomb);
  expect(parseQuery(text).cards.map((card) => card.name)).toEqual(["&b;", "&f;"]);
  const inside = parseQuery(queryText([{ n: 0, more: bomb }]));
  expect(inside.cards.map((card) => card.readable)).toEqual([false]);
});

test("names that every object has are no values", () => {
  const more = "<constructor>x</constructor><toString>y</toString><__proto__><lost>GPU is lost</lost></__proto__>";
  const [card] = parseQuery(queryText([{ n: 0, more }])).cards;
  expect([card?.busId, card?.lost]).toEqual([smiBus(0), false]);
  expect("lost" in {}).toBe(false);
});

test("brand, architecture and the rows remapped so far are read where they are told", () => {
  const rows =
    "<remapped_row_corr>2</remapped_row_corr><remapped_row_unc>1</remapped_row_unc><remapped_row_pending>Yes</remapped_row_pending>";
  const more = `<product_brand>Tesla</product_brand><product_architecture>Ampere</product_architecture><remapped_rows>${rows}</remapped_rows>`;
  expect(one({ more })).toMatchObject({
    brand: "Tesla",
    architecture: "Ampere",
    remappedRows: { pending: true, failure: undefined, correctable: 2, uncorrectable: 1 },
  });
  expect(one({})).toMatchObject({ brand: undefined, architecture: undefined });
});

test("a card that is lost in a block that nobody else reads is lost", () => {
  expect(one({ more: "<clocks><sm_clock>GPU is lost</sm_clock></clocks>" })).toMatchObject({ lost: true, errorTexts: ["GPU is lost"] });
  expect(one({ more: "<max_clocks>\n\t[Unknown Error]\n</max_clocks>" })).toMatchObject({ lost: false, errorTexts: ["Unknown Error"] });
});

test("an element that was written without content in the short form is empty", () => {
  const card = one({ more: "<retired_pages/><serial />" });
  expect([card.uuid, card.retiredPagesPending]).toEqual([smiUuid(0), undefined]);
  const text = queryText([{ n: 0 }]).replace(/<processes>\s*<\/processes>/, "<processes/>");
  expect(parseQuery(text).cards[0]?.processes).toEqual([]);
});

test("elements deeper than any driver writes them cost the card", () => {
  const deep = parseQuery(queryText([{ n: 0, more: "<a>".repeat(40) + "</a>".repeat(40) }, { n: 1 }]));
  expect(deep.cards.map((card) => card.readable)).toEqual([false, true]);
});

test("more cards than a machine can have are not read, and that is said", () => {
  const report = parseQuery(queryText(Array.from({ length: 300 }, (_, n) => ({ n }))));
  expect([report.cards.length, report.cards.every((card) => card.readable)]).toEqual([256, true]);
  expect(report.warnings).toEqual(["nvidia-smi -q -x: no more than 256 cards are read"]);
});

test("an element that comes twice is not one of the two", () => {
  expect(one({ more: "<product_name>Another card</product_name>" }).name).toBeUndefined();
});

test("other words are no document", () => {
  for (const text of ["", "No devices were found", "<html><body>nvidia</body></html>", "GPU 0: x (UUID: y)"]) {
    expect(parseQuery(text)).toEqual({
      driverVersion: undefined,
      cudaVersion: undefined,
      attachedGpus: undefined,
      cards: [],
      warnings: [],
    });
  }
});
