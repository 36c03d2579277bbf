/*
 * A stand-in for NVIDIA's libnvidia-ml.so.1 that answers from a text file, for tests without a card.
 *
 * The file is named by LLMGW_NVML_STUB and read at each init: lines "key=value", as README.md here lists them. A value that is not in
 * the file is NOT_SUPPORTED. Every output is filled with 0xA5 before an error is returned, so whoever reads without looking at the code
 * reads nonsense; a struct whose version field is not the expected one is ARGUMENT_VERSION_MISMATCH. A symbol is taken away by
 * renaming it on the compiler's command line: -DnvmlDeviceGetMemoryInfo_v2=absent_1.
 *
 * No header of NVIDIA is used: the structs are our own, and their sizes and offsets are asserted.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, LOST = 15,
    VERSION_MISMATCH = 25
};

typedef struct { char legacy[16]; uint32_t domain, bus, device, id, sub; char bus_id[32]; } PciInfo;
typedef struct { uint64_t total, free, used; } Memory1;
typedef struct { uint32_t version; uint64_t total, reserved, free, used; } Memory2;
typedef struct { uint32_t gpu, memory; } Utilization;
typedef struct { uint32_t sms, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices; uint64_t memory_mb; } Attributes;
typedef struct { void *device; uint32_t id, profile; uint32_t start, size; } InstanceInfo;
typedef struct { uint32_t version, id, p2p, numbers[8]; uint64_t memory_mb; char name[96]; } Profile2;
typedef struct { uint32_t version, id, numbers[8]; uint64_t memory_mb; char name[96]; uint32_t capabilities; } Profile3;
typedef struct { uint32_t version; uint64_t counts[11]; uint32_t exceeded; } Sram;
typedef struct { uint32_t version, channel, tpc; } Repair;
typedef struct { uint32_t version, sensor; int32_t celsius; } Temperature;
typedef struct { uint32_t id, scope; int64_t time, latency; uint32_t type; int32_t code; union { double f64; uint32_t u32; uint64_t u64; int64_t i64; int32_t i32; uint16_t u16; } value; } Field;
typedef struct { uint8_t uuid[16]; uint32_t status, clique; uint8_t state; } Fabric1;
typedef struct { uint32_t version; uint8_t uuid[16]; uint32_t status, clique; uint8_t state; uint32_t mask; uint8_t summary; } Fabric3;

_Static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36, "PciInfo");
_Static_assert(sizeof(Memory1) == 24 && offsetof(Memory1, used) == 16, "Memory1");
_Static_assert(sizeof(Memory2) == 40 && offsetof(Memory2, total) == 8 && offsetof(Memory2, free) == 24, "Memory2");
_Static_assert(sizeof(Attributes) == 40 && offsetof(Attributes, gi_slices) == 24 && offsetof(Attributes, memory_mb) == 32, "Attributes");
_Static_assert(sizeof(InstanceInfo) == 24 && offsetof(InstanceInfo, profile) == 12, "InstanceInfo");
_Static_assert(sizeof(Profile2) == 152 && offsetof(Profile2, memory_mb) == 48 && offsetof(Profile2, name) == 56, "Profile2");
_Static_assert(sizeof(Profile3) == 152 && offsetof(Profile3, memory_mb) == 40 && offsetof(Profile3, name) == 48, "Profile3");
_Static_assert(sizeof(Sram) == 104 && offsetof(Sram, exceeded) == 96, "Sram");
_Static_assert(sizeof(Repair) == 12, "Repair");
_Static_assert(sizeof(Temperature) == 12, "Temperature");
_Static_assert(sizeof(Field) == 40 && offsetof(Field, type) == 24 && offsetof(Field, code) == 28 && offsetof(Field, value) == 32, "Field");
_Static_assert(sizeof(Fabric1) == 28 && offsetof(Fabric1, state) == 24, "Fabric1");
_Static_assert(sizeof(Fabric3) == 40 && offsetof(Fabric3, state) == 28 && offsetof(Fabric3, mask) == 32 && offsetof(Fabric3, summary) == 36, "Fabric3");

/* The scenario: lines sorted by key. */

typedef struct { char *key, *value; } Line;
static char *text;
static Line *lines;
static size_t line_count;
static int inits;

static int by_key(const void *a, const void *b) { return strcmp(((const Line *)a)->key, ((const Line *)b)->key); }

static int load(void) {
    const char *path = getenv("LLMGW_NVML_STUB");
    FILE *file = path == NULL ? NULL : fopen(path, "r");
    if (file == NULL) return 0;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    free(text);
    free(lines);
    text = calloc(1, (size_t)size + 1);
    lines = calloc((size_t)size / 2 + 1, sizeof(Line));
    line_count = 0;
    size_t got = fread(text, 1, (size_t)size, file);
    fclose(file);
    text[got] = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (equals == NULL) continue;
        *equals = 0;
        lines[line_count++] = (Line){ line, equals + 1 };
    }
    qsort(lines, line_count, sizeof(Line), by_key);
    return 1;
}

static const char *find(const char *key) {
    Line wanted = { (char *)key, NULL };
    Line *found = line_count == 0 ? NULL : bsearch(&wanted, lines, line_count, sizeof(Line), by_key);
    return found == NULL ? NULL : found->value;
}

static long long number(const char *value, long long otherwise) { return value == NULL ? otherwise : (long long)strtoull(value, NULL, 0); }

/* Handles. */

#define MAGIC 0x6c6c6d67u
typedef struct { uint32_t magic; int gpu, slot; } Device;
static Device cards[64];
static Device slots[64][16];
static long calls[64];

static const char *attribute(const Device *device, const char *name) {
    char key[160];
    if (device->slot < 0) snprintf(key, sizeof key, "gpu.%d.%s", device->gpu, name);
    else snprintf(key, sizeof key, "gpu.%d.mig.%d.%s", device->gpu, device->slot, name);
    return find(key);
}

static const char *numbered(const Device *device, const char *name, unsigned number, const char *rest) {
    char key[160];
    snprintf(key, sizeof key, "%s.%u%s", name, number, rest);
    return attribute(device, key);
}

static void pause_for(const char *value) {
    if (value != NULL) usleep((useconds_t)(atoi(value) * 1000));
}

/* What every call on a device goes through: initialised, a real handle, a scripted code, a pause, or lost by now. */
static int gate(const Device *device, const char *symbol) {
    char name[120];
    if (inits <= 0) return UNINITIALIZED;
    if (device == NULL || device->magic != MAGIC) return INVALID_ARGUMENT;
    Device card = { MAGIC, device->gpu, -1 };
    snprintf(name, sizeof name, "sleep.%s", symbol);
    pause_for(attribute(device, name));
    const char *lost_after = attribute(&card, "lost_after");
    if (lost_after != NULL && ++calls[device->gpu] > atol(lost_after)) return LOST;
    snprintf(name, sizeof name, "fn.%s", symbol);
    return (int)number(attribute(device, name), OK);
}

static int fail(void *out, size_t size, int code) {
    if (out != NULL) memset(out, 0xa5, size);
    return code;
}

static int read_u32(const Device *device, const char *symbol, const char *name, uint32_t *out) {
    int code = gate(device, symbol);
    const char *value = code == OK ? attribute(device, name) : NULL;
    if (value == NULL) return fail(out, sizeof *out, code == OK ? NOT_SUPPORTED : code);
    *out = (uint32_t)number(value, 0);
    return OK;
}

static int read_u64(const Device *device, const char *symbol, const char *name, uint64_t *out) {
    int code = gate(device, symbol);
    const char *value = code == OK ? attribute(device, name) : NULL;
    if (value == NULL) return fail(out, sizeof *out, code == OK ? NOT_SUPPORTED : code);
    *out = strtoull(value, NULL, 0);
    return OK;
}

static int read_text(const Device *device, const char *symbol, const char *name, char *out, uint32_t length) {
    int code = gate(device, symbol);
    const char *value = code == OK ? attribute(device, name) : NULL;
    if (value == NULL) return fail(out, length, code == OK ? NOT_SUPPORTED : code);
    if (strlen(value) >= length) return fail(out, length, INSUFFICIENT_SIZE);
    strcpy(out, value);
    return OK;
}

static int read_pair(const Device *device, const char *symbol, const char *name, uint32_t *first, uint32_t *second) {
    int code = gate(device, symbol);
    const char *value = code == OK ? attribute(device, name) : NULL;
    unsigned a, b;
    if (value == NULL || sscanf(value, "%u,%u", &a, &b) != 2) {
        fail(second, sizeof *second, 0);
        return fail(first, sizeof *first, code == OK ? NOT_SUPPORTED : code);
    }
    *first = a;
    *second = b;
    return OK;
}

#define U32(symbol, name) EXPORT int symbol(Device *device, uint32_t *out) { return read_u32(device, #symbol, name, out); }
#define U64(symbol, name) EXPORT int symbol(Device *device, uint64_t *out) { return read_u64(device, #symbol, name, out); }
#define TEXT(symbol, name) EXPORT int symbol(Device *device, char *out, uint32_t length) { return read_text(device, #symbol, name, out, length); }
#define PAIR(symbol, name) EXPORT int symbol(Device *device, uint32_t *first, uint32_t *second) { return read_pair(device, #symbol, name, first, second); }

/* System. */

static int start(void) {
    if (!load()) return 9;
    pause_for(find("sleep.init"));
    int code = (int)number(find("init"), OK);
    if (code != OK) return code;
    inits++;
    memset(calls, 0, sizeof calls);
    return OK;
}

EXPORT int nvmlInitWithFlags(uint32_t flags) {
    int code = start();
    if (code == OK && (flags & 1) == 0 && number(find("count"), 0) == 0) return NOT_FOUND;
    return code;
}

EXPORT int nvmlInit_v2(void) { return start(); }

/* Tests see by the file's content whether every init was paired. */
EXPORT int nvmlShutdown(void) {
    if (inits <= 0) return UNINITIALIZED;
    inits--;
    const char *path = find("log_shutdown");
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    if (file != NULL) {
        fprintf(file, "%d\n", inits);
        fclose(file);
    }
    return OK;
}

static int system_text(const char *name, char *out, uint32_t length) {
    if (inits <= 0) return fail(out, length, UNINITIALIZED);
    const char *value = find(name);
    if (value == NULL) return fail(out, length, NOT_SUPPORTED);
    snprintf(out, length, "%s", value);
    return OK;
}

EXPORT int nvmlSystemGetDriverVersion(char *out, uint32_t length) { return system_text("driver_version", out, length); }
EXPORT int nvmlSystemGetNVMLVersion(char *out, uint32_t length) { return system_text("nvml_version", out, length); }

EXPORT int nvmlSystemGetProcessName(uint32_t pid, char *out, uint32_t length) {
    char name[40];
    snprintf(name, sizeof name, "process.%u", pid);
    return system_text(name, out, length) == OK ? OK : NOT_FOUND;
}

static int cuda(const char *name, int32_t *out) {
    const char *value = inits > 0 ? find(name) : NULL;
    if (value == NULL) return fail(out, sizeof *out, 12);
    *out = (int32_t)number(value, 0);
    return OK;
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int32_t *out) { return cuda("cuda", out); }
EXPORT int nvmlSystemGetCudaDriverVersion(int32_t *out) { return cuda("cuda_guess", out); }

EXPORT int nvmlDeviceGetCount_v2(uint32_t *out) {
    if (inits <= 0) return fail(out, sizeof *out, UNINITIALIZED);
    *out = (uint32_t)number(find("count"), 0);
    return OK;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(uint32_t index, Device **out) {
    if (inits <= 0) return fail(out, sizeof *out, UNINITIALIZED);
    if (index >= number(find("count"), 0) || index >= 64) return fail(out, sizeof *out, INVALID_ARGUMENT);
    cards[index] = (Device){ MAGIC, (int)index, -1 };
    pause_for(attribute(&cards[index], "sleep.handle"));
    int code = (int)number(attribute(&cards[index], "handle"), OK);
    if (code != OK) return fail(out, sizeof *out, code);
    *out = &cards[index];
    return OK;
}

/* Identity. */

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
U32(nvmlDeviceGetMinorNumber, "minor")
PAIR(nvmlDeviceGetCudaComputeCapability, "capability")
U32(nvmlDeviceGetVirtualizationMode, "virtualization")

EXPORT int nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *out) {
    int code = gate(device, "nvmlDeviceGetPciInfo_v3");
    const char *value = code == OK ? attribute(device, "bus_id") : NULL;
    if (value == NULL) return fail(out, sizeof *out, code == OK ? NOT_SUPPORTED : code);
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", value);
    return OK;
}

/* Memory: "total,used,free". */

static int memory(const Device *device, const char *symbol, unsigned long long parts[3]) {
    int code = gate(device, symbol);
    const char *value = code == OK ? attribute(device, "memory") : NULL;
    if (value == NULL) return code == OK ? NOT_SUPPORTED : code;
    return sscanf(value, "%llu,%llu,%llu", &parts[0], &parts[1], &parts[2]) == 3 ? OK : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetMemoryInfo(Device *device, Memory1 *out) {
    unsigned long long parts[3];
    int code = memory(device, "nvmlDeviceGetMemoryInfo", parts);
    if (code != OK) return fail(out, sizeof *out, code);
    *out = (Memory1){ parts[0], parts[2], parts[1] };
    return OK;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(Device *device, Memory2 *out) {
    unsigned long long parts[3];
    if (out->version != 0x02000028u) return fail(out, sizeof *out, VERSION_MISMATCH);
    int code = memory(device, "nvmlDeviceGetMemoryInfo_v2", parts);
    if (code != OK) return fail(out, sizeof *out, code);
    *out = (Memory2){ 0x02000028u, parts[0], 0, parts[2], parts[1] };
    return OK;
}

/* State. */

EXPORT int nvmlDeviceGetTemperature(Device *device, uint32_t sensor, uint32_t *out) {
    if (sensor != 0) return fail(out, sizeof *out, INVALID_ARGUMENT);
    return read_u32(device, "nvmlDeviceGetTemperature", "temperature", out);
}

EXPORT int nvmlDeviceGetTemperatureV(Device *device, Temperature *out) {
    uint32_t celsius;
    if (out->version != 0x0100000cu) return fail(out, sizeof *out, VERSION_MISMATCH);
    int code = read_u32(device, "nvmlDeviceGetTemperatureV", "temperature", &celsius);
    if (code != OK) return fail(out, sizeof *out, code);
    out->celsius = (int32_t)celsius;
    return OK;
}

U32(nvmlDeviceGetPowerUsage, "power")
U32(nvmlDeviceGetEnforcedPowerLimit, "power_limit_enforced")
U32(nvmlDeviceGetPowerManagementLimit, "power_limit")
PAIR(nvmlDeviceGetEccMode, "ecc_mode")
U32(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pending")
U64(nvmlDeviceGetCurrentClocksEventReasons, "clock_reasons")
U64(nvmlDeviceGetCurrentClocksThrottleReasons, "clock_reasons")
U32(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.gen_current")
U32(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width_current")
U32(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.gen_max")
U32(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width_max")
U32(nvmlDeviceGetPersistenceMode, "persistence")
U32(nvmlDeviceGetComputeMode, "compute_mode")

EXPORT int nvmlDeviceGetUtilizationRates(Device *device, Utilization *out) {
    uint32_t percent;
    int code = read_u32(device, "nvmlDeviceGetUtilizationRates", "utilization", &percent);
    if (code != OK) return fail(out, sizeof *out, code);
    *out = (Utilization){ percent, 0 };
    return OK;
}

EXPORT int nvmlDeviceGetTotalEccErrors(Device *device, uint32_t type, uint32_t counter, uint64_t *out) {
    if (type != 1) return fail(out, sizeof *out, NOT_SUPPORTED);
    return read_u64(device, "nvmlDeviceGetTotalEccErrors", counter == 0 ? "ecc_volatile" : "ecc_aggregate", out);
}

EXPORT int nvmlDeviceGetMemoryErrorCounter(Device *device, uint32_t type, uint32_t counter, uint32_t location, uint64_t *out) {
    if (type != 1 || counter != 0 || location != 7) return fail(out, sizeof *out, NOT_SUPPORTED);
    return read_u64(device, "nvmlDeviceGetMemoryErrorCounter", "sram_uncorrected", out);
}

EXPORT int nvmlDeviceGetSramEccErrorStatus(Device *device, Sram *out) {
    uint32_t exceeded;
    if (out->version != 0x01000068u) return fail(out, sizeof *out, VERSION_MISMATCH);
    int code = read_u32(device, "nvmlDeviceGetSramEccErrorStatus", "sram_exceeded", &exceeded);
    if (code != OK) return fail(out, sizeof *out, code);
    out->exceeded = exceeded;
    return OK;
}

EXPORT int nvmlDeviceGetRepairStatus(Device *device, Repair *out) {
    uint32_t channel, tpc;
    if (out->version != 0x0100000cu) return fail(out, sizeof *out, VERSION_MISMATCH);
    int code = read_pair(device, "nvmlDeviceGetRepairStatus", "repair", &channel, &tpc);
    if (code != OK) return fail(out, sizeof *out, code);
    out->channel = channel;
    out->tpc = tpc;
    return OK;
}

EXPORT int nvmlDeviceGetRemappedRows(Device *device, uint32_t *corrected, uint32_t *uncorrected, uint32_t *pending, uint32_t *failure) {
    int code = gate(device, "nvmlDeviceGetRemappedRows");
    const char *value = code == OK ? attribute(device, "remapped") : NULL;
    if (value == NULL || sscanf(value, "%u,%u,%u,%u", corrected, uncorrected, pending, failure) != 4) {
        fail(corrected, 4, 0);
        fail(uncorrected, 4, 0);
        fail(pending, 4, 0);
        return fail(failure, 4, code == OK ? NOT_SUPPORTED : code);
    }
    return OK;
}

/* Links: "link.N=state,type,bus id"; a type of "-" is refused. */

static int link_of(const Device *device, const char *symbol, uint32_t link, unsigned *state, char type[16], char bus[40]) {
    int code = gate(device, symbol);
    if (code != OK) return code;
    const char *value = numbered(device, "link", link, "");
    if (value == NULL) return numbered(device, "link", 0, "") == NULL ? NOT_SUPPORTED : INVALID_ARGUMENT;
    type[0] = bus[0] = 0;
    return sscanf(value, "%u,%15[^,],%39s", state, type, bus) >= 1 ? OK : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetNvLinkState(Device *device, uint32_t link, uint32_t *out) {
    unsigned state;
    char type[16], bus[40];
    int code = link_of(device, "nvmlDeviceGetNvLinkState", link, &state, type, bus);
    if (code != OK) return fail(out, sizeof *out, code);
    *out = state;
    return OK;
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(Device *device, uint32_t link, uint32_t *out) {
    unsigned state;
    char type[16], bus[40];
    int code = link_of(device, "nvmlDeviceGetNvLinkRemoteDeviceType", link, &state, type, bus);
    if (code != OK || type[0] == 0 || type[0] == '-') return fail(out, sizeof *out, code == OK ? NOT_SUPPORTED : code);
    *out = (uint32_t)atoi(type);
    return OK;
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *device, uint32_t link, PciInfo *out) {
    unsigned state;
    char type[16], bus[40];
    int code = link_of(device, "nvmlDeviceGetNvLinkRemotePciInfo_v2", link, &state, type, bus);
    if (code != OK || bus[0] == 0) return fail(out, sizeof *out, code == OK ? NOT_SUPPORTED : code);
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%.31s", bus);
    return OK;
}

/* Fields: "field.ID=type:value" or "field.ID=ret:code"; 165 follows the links where "link_field" is set. */

static void fill_field(const Device *device, Field *field) {
    char kind[16];
    char value[64];
    field->code = NOT_SUPPORTED;
    if (field->id == 165) {
        const char *link = attribute(device, "link_field") == NULL ? NULL : numbered(device, "link", field->scope, "");
        if (link == NULL) return;
        *field = (Field){ .id = field->id, .scope = field->scope, .type = 1, .code = OK, .value.u32 = (uint32_t)atoi(link) };
        return;
    }
    const char *line = numbered(device, "field", field->id, "");
    if (line == NULL || sscanf(line, "%15[^:]:%63s", kind, value) != 2) return;
    if (strcmp(kind, "ret") == 0) {
        field->code = atoi(value);
        return;
    }
    field->type = (uint32_t)atoi(kind);
    field->code = OK;
    field->value.u64 = 0;
    if (field->type == 0) field->value.f64 = atof(value);
    else if (field->type == 1) field->value.u32 = (uint32_t)strtoull(value, NULL, 0);
    else if (field->type == 6) field->value.u16 = (uint16_t)atoi(value);
    else if (field->type == 5) field->value.i32 = atoi(value);
    else if (field->type == 4) field->value.i64 = atoll(value);
    else field->value.u64 = strtoull(value, NULL, 0);
}

EXPORT int nvmlDeviceGetFieldValues(Device *device, int32_t count, Field *fields) {
    int code = gate(device, "nvmlDeviceGetFieldValues");
    if (code != OK) return fail(fields, sizeof(Field) * (size_t)count, code);
    for (int32_t at = 0; at < count; at++) {
        memset(&fields[at].value, 0xa5, sizeof fields[at].value);
        fill_field(device, &fields[at]);
    }
    return OK;
}

/* Fabric: "fabric=state,status,clique,mask,summary,32 hex digits". "fabric_newest=2" refuses the third version of the struct. */

static int fabric(const Device *device, const char *symbol, Fabric3 *out) {
    int code = gate(device, symbol);
    const char *value = code == OK ? attribute(device, "fabric") : NULL;
    unsigned state, status, clique, mask, summary;
    char hex[40];
    if (value == NULL || sscanf(value, "%u,%u,%u,%u,%u,%39s", &state, &status, &clique, &mask, &summary, hex) != 6) {
        return code == OK ? NOT_SUPPORTED : code;
    }
    for (int at = 0; at < 16; at++) {
        unsigned byte = 0;
        sscanf(hex + 2 * at, "%2x", &byte);
        out->uuid[at] = (uint8_t)byte;
    }
    out->status = status;
    out->clique = clique;
    out->state = (uint8_t)state;
    out->mask = mask;
    out->summary = (uint8_t)summary;
    return OK;
}

EXPORT int nvmlDeviceGetGpuFabricInfoV(Device *device, Fabric3 *out) {
    uint32_t version = out->version;
    Fabric3 full = { .version = version };
    int newest = (int)number(find("fabric_newest"), 3);
    if (!(version == 0x02000024u || (version == 0x03000028u && newest >= 3))) return fail(out, 36, VERSION_MISMATCH);
    int code = fabric(device, "nvmlDeviceGetGpuFabricInfoV", &full);
    if (code != OK) return fail(out, 36, code);
    memcpy(out, &full, version == 0x03000028u ? 40 : 36);
    return OK;
}

EXPORT int nvmlDeviceGetGpuFabricInfo(Device *device, Fabric1 *out) {
    Fabric3 full = { 0 };
    int code = fabric(device, "nvmlDeviceGetGpuFabricInfo", &full);
    if (code != OK) return fail(out, sizeof *out, code);
    memcpy(out->uuid, full.uuid, 16);
    out->status = full.status;
    out->clique = full.clique;
    out->state = full.state;
    return OK;
}

/* Processes: "processes=pid:bytes:gi:ci;…", also graphics and mps. "growing=N": the first N calls find no room. "process_stride". */

static int grown;

static int processes(const Device *device, const char *symbol, const char *name, size_t stride, uint32_t *count, uint8_t *out) {
    int code = gate(device, symbol);
    uint32_t room = *count;
    if (code != OK) return fail(out, stride * room, code);
    const char *value = attribute(device, name);
    if (value == NULL) return fail(out, stride * room, NOT_SUPPORTED);
    uint32_t needed = 0;
    for (const char *at = value; *at != 0; at++) needed += at == value || *at == ';';
    if (needed > room || grown < number(find("growing"), 0)) {
        grown++;
        *count = needed;
        return INSUFFICIENT_SIZE;
    }
    memset(out, 0, stride * room);
    uint32_t at = 0;
    for (const char *entry = value; entry != NULL && *entry != 0; entry = strchr(entry, ';'), entry = entry == NULL ? NULL : entry + 1) {
        unsigned pid, gi, ci;
        char bytes[32];
        if (sscanf(entry, "%u:%31[^:]:%u:%u", &pid, bytes, &gi, &ci) != 4) break;
        uint64_t used = bytes[0] == '-' ? UINT64_MAX : strtoull(bytes, NULL, 0);
        uint8_t *to = out + stride * at++;
        memcpy(to, &pid, 4);
        memcpy(to + 8, &used, 8);
        if (stride > 16) {
            memcpy(to + 16, &gi, 4);
            memcpy(to + 20, &ci, 4);
        }
        /* The field that made the entry longer in early 535 drivers. */
        if (stride > 24) memset(to + 24, 0xee, 8);
    }
    *count = at;
    return OK;
}

#define PROCESSES(symbol, name, stride) \
    EXPORT int symbol(Device *device, uint32_t *count, uint8_t *out) { return processes(device, #symbol, name, stride, count, out); }

PROCESSES(nvmlDeviceGetComputeRunningProcesses, "processes", 16)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "processes", 24)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "processes", (size_t)number(find("process_stride"), 24))
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", (size_t)number(find("process_stride"), 24))
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", (size_t)number(find("process_stride"), 24))

/* MIG. */

PAIR(nvmlDeviceGetMigMode, "mig_mode")
U32(nvmlDeviceGetMaxMigDeviceCount, "mig_slots")
U32(nvmlDeviceGetGpuInstanceId, "gi")
U32(nvmlDeviceGetComputeInstanceId, "ci")

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, uint32_t slot, Device **out) {
    int code = gate(device, "nvmlDeviceGetMigDeviceHandleByIndex");
    if (code != OK) return fail(out, sizeof *out, code);
    if (slot >= 16) return fail(out, sizeof *out, INVALID_ARGUMENT);
    Device *found = &slots[device->gpu][slot];
    *found = (Device){ MAGIC, device->gpu, (int)slot };
    if (attribute(found, "gi") == NULL) return fail(out, sizeof *out, NOT_FOUND);
    *out = found;
    return OK;
}

EXPORT int nvmlDeviceGetAttributes_v2(Device *device, Attributes *out) {
    int code = gate(device, "nvmlDeviceGetAttributes_v2");
    const char *value = code == OK ? attribute(device, "attributes") : NULL;
    unsigned sms, gi, ci, mb;
    if (value == NULL || sscanf(value, "%u,%u,%u,%u", &sms, &gi, &ci, &mb) != 4) {
        return fail(out, sizeof *out, code == OK ? NOT_SUPPORTED : code);
    }
    *out = (Attributes){ .sms = sms, .gi_slices = gi, .ci_slices = ci, .memory_mb = mb };
    return OK;
}

/* "instance.GI=profile id" of a card, for privileged callers; "profile.INDEX=id,name" of a card. "profile_newest=2": drivers before 545. */

typedef struct { uint32_t magic; int gpu; uint32_t profile; } Instance;
static Instance instances[64];

EXPORT int nvmlDeviceGetGpuInstanceById(Device *device, uint32_t id, Instance **out) {
    int code = gate(device, "nvmlDeviceGetGpuInstanceById");
    const char *value = code == OK ? numbered(device, "instance", id, "") : NULL;
    if (value == NULL) return fail(out, sizeof *out, code == OK ? 4 : code);
    Instance *found = &instances[id % 64];
    *found = (Instance){ MAGIC, device->gpu, (uint32_t)number(value, 0) };
    *out = found;
    return OK;
}

EXPORT int nvmlGpuInstanceGetInfo(Instance *instance, InstanceInfo *out) {
    if (instance == NULL || instance->magic != MAGIC) return fail(out, sizeof *out, INVALID_ARGUMENT);
    *out = (InstanceInfo){ .device = NULL, .id = 0, .profile = instance->profile };
    return OK;
}

EXPORT int nvmlDeviceGetGpuInstanceProfileInfoV(Device *device, uint32_t profile, void *out) {
    uint32_t version;
    unsigned id;
    char name[96];
    memcpy(&version, out, 4);
    int code = gate(device, "nvmlDeviceGetGpuInstanceProfileInfoV");
    int newest = (int)number(find("profile_newest"), 3);
    if (code == OK && !(version == 0x02000098u || (version == 0x03000098u && newest >= 3))) code = VERSION_MISMATCH;
    const char *value = code == OK ? numbered(device, "profile", profile, "") : NULL;
    if (value == NULL || sscanf(value, "%u,%95[^\n]", &id, name) != 2) return fail(out, 152, code == OK ? NOT_SUPPORTED : code);
    memset(out, 0, 152);
    if (version == 0x02000098u) {
        Profile2 *full = out;
        *full = (Profile2){ .version = version, .id = id };
        strcpy(full->name, name);
    } else {
        Profile3 *full = out;
        *full = (Profile3){ .version = version, .id = id };
        strcpy(full->name, name);
    }
    return OK;
}
