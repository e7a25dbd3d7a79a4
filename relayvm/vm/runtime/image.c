/* Native code: mapping it writable, then executable; linking it to kernels; CPU features. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include "native.h"
#include "program.h"

typedef struct rvm_code_mapping {
    struct rvm_code_mapping *next;
    void *address;
    size_t bytes;
} rvm_code_mapping;

/* All that is mapped for a program, and for those that share it. */
typedef struct rvm_code {
    int32_t references;
    rvm_code_mapping *mappings;
} rvm_code;

static uint64_t import_address(uint32_t symbol) {
#define ADDRESS(name) (uint64_t)(uintptr_t)&name,
    static const uint64_t addresses[RVM_NUM_IMAGE_IMPORTS] = {RVM_IMPORTS(ADDRESS)};
#undef ADDRESS
    return addresses[symbol];
}

int rvm_fill_imports(uint8_t *code, size_t bytes, const rvm_image_import *imports,
                     uint32_t num_imports) {
    for (uint32_t i = 0; i < num_imports; i++) {
        if (imports[i].symbol >= RVM_NUM_IMAGE_IMPORTS || bytes < 8 ||
            imports[i].slot > bytes - 8)
            return -1;
        const uint64_t address = import_address(imports[i].symbol);
        memcpy(code + imports[i].slot, &address, sizeof address);
    }
    return 0;
}

const void *rvm_program_map_code(rvm_program *program, const void *code, size_t code_bytes,
                                 const rvm_image_import *imports, uint32_t num_imports) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (code_bytes == 0 || code_bytes > SIZE_MAX / 2) return NULL;
    const size_t bytes = (code_bytes + page - 1) / page * page;
    if (program->code == NULL) program->code = calloc(1, sizeof *program->code);
    if (program->code == NULL) return NULL;
    program->code->references += program->code->references == 0;
    rvm_code_mapping *mapping = malloc(sizeof *mapping);
    if (mapping == NULL) return NULL;
    void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
        free(mapping);
        return NULL;
    }
    memcpy(address, code, code_bytes);
    if (rvm_fill_imports(address, code_bytes, imports, num_imports) ||
        mprotect(address, bytes, PROT_READ | PROT_EXEC)) {
        munmap(address, bytes);
        free(mapping);
        return NULL;
    }
    __builtin___clear_cache((char *)address, (char *)address + code_bytes);
    *mapping = (rvm_code_mapping){program->code->mappings, address, bytes};
    program->code->mappings = mapping;
    return address;
}

void rvm_program_unmap_code(rvm_program *program) {
    rvm_code *code = program->code;
    program->code = NULL;
    if (code == NULL || __atomic_sub_fetch(&code->references, 1, __ATOMIC_ACQ_REL) != 0) return;
    for (rvm_code_mapping *mapping = code->mappings; mapping != NULL;) {
        rvm_code_mapping *next = mapping->next;
        munmap(mapping->address, mapping->bytes);
        free(mapping);
        mapping = next;
    }
    free(code);
}

int32_t rvm_program_share_code(rvm_program *program, rvm_program *other) {
    if (program->code != NULL || program->num_kernels != other->num_kernels) return -1;
    for (uint32_t k = 0; k < program->num_kernels; k++)
        if (program->kernels[k].num_phases != other->kernels[k].num_phases) return -1;
    for (uint32_t k = 0; k < program->num_kernels; k++)
        memcpy(program->kernels[k].phases, other->kernels[k].phases,
               program->kernels[k].num_phases * sizeof *program->kernels[k].phases);
    program->code = other->code;
    if (program->code != NULL) __atomic_add_fetch(&program->code->references, 1, __ATOMIC_RELAXED);
    return 0;
}

int32_t rvm_program_set_phase(rvm_program *program, uint32_t kernel, uint32_t phase,
                              const void *address) {
    if (kernel >= program->num_kernels || phase >= program->kernels[kernel].num_phases) return -1;
    /* ISO C has no cast between the two kinds of pointers; POSIX makes them one. */
    memcpy(&program->kernels[kernel].phases[phase], &address, sizeof address);
    return 0;
}

int32_t rvm_program_link_image(rvm_program *program, uint32_t number) {
    if (number >= program->num_images) return -1;
    const rvm_image *image = &program->images[number];
    const bool has_functions = image->num_functions != 0;
    if (has_functions && (image->abi != rvm_native_abi() || !rvm_native_is_supported())) return 0;
    const uint8_t *code = rvm_program_map_code(program, image->code, image->code_bytes,
                                               image->imports, image->num_imports);
    if (code == NULL) return -1;
    for (uint32_t i = 0; i < image->num_phases; i++)
        rvm_program_set_phase(program, image->phases[i].kernel, image->phases[i].phase,
                              code + image->phases[i].offset);
    if (!has_functions) return 0;
    return rvm_program_set_native(program, code, image->functions, image->margin_bytes);
}

int64_t rvm_program_first_unlinked(const rvm_program *program) {
    for (uint32_t k = 0; k < program->num_kernels; k++)
        for (uint32_t p = 0; p < program->kernels[k].num_phases; p++)
            if (program->kernels[k].phases[p] == NULL) return k;
    return -1;
}

/* --- CPU features ------------------------------------------------------------------------------ */

#if defined(__x86_64__)
#define FEATURES(X)                                                                             \
    X("sse", "sse") X("sse2", "sse2") X("sse3", "sse3") X("ssse3", "ssse3")                     \
    X("sse4.1", "sse4.1") X("sse4.2", "sse4.2") X("popcnt", "popcnt") X("avx", "avx")           \
    X("avx2", "avx2") X("fma", "fma") X("f16c", "f16c") X("bmi", "bmi") X("bmi2", "bmi2")       \
    X("lzcnt", "lzcnt") X("avx512f", "avx512f") X("avx512cd", "avx512cd")                       \
    X("avx512bw", "avx512bw") X("avx512dq", "avx512dq") X("avx512vl", "avx512vl")               \
    X("avx512ifma", "avx512ifma") X("avx512vbmi", "avx512vbmi")                                 \
    X("avx512vbmi2", "avx512vbmi2") X("avx512vnni", "avx512vnni")                               \
    X("avx512bitalg", "avx512bitalg") X("avx512vpopcntdq", "avx512vpopcntdq")                   \
    X("avx512bf16", "avx512bf16")

int rvm_host_has_feature(const char *name, size_t bytes) {
    __builtin_cpu_init();
#define CHECK(llvm, gcc)                                                 \
    if (bytes == sizeof(llvm) - 1 && memcmp(name, llvm, sizeof(llvm) - 1) == 0) \
        return __builtin_cpu_supports(gcc) != 0;
    FEATURES(CHECK)
#undef CHECK
    return 0;
}
#else
int rvm_host_has_feature(const char *name, size_t bytes) {
    static const char *const known[] = {"neon", "fp-armv8"};
#if defined(__aarch64__)
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (bytes == strlen(known[i]) && memcmp(name, known[i], bytes) == 0) return 1;
#else
    (void)name, (void)bytes, (void)known;
#endif
    return 0;
}
#endif
