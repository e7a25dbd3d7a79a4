/* Loading executables: verified by the runtime's loader, described from the manifest, linked to their native code. */
#include "library.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAME(name) _Static_assert((int)RVM_##name == (int)RVM_DTYPE_##name, "dtypes have one numbering");
SAME(BOOL)
SAME(INT8)
SAME(INT16)
SAME(INT32)
SAME(INT64)
SAME(UINT8)
SAME(UINT16)
SAME(UINT32)
SAME(UINT64)
SAME(FLOAT16)
SAME(FLOAT32)
SAME(FLOAT64)
SAME(BFLOAT16)
SAME(INT4)
SAME(UINT4)
SAME(INT2)
SAME(UINT2)
SAME(FLOAT8_E4M3FN)
SAME(FLOAT8_E5M2)
SAME(FLOAT8_E4M3FNUZ)
SAME(FLOAT8_E5M2FNUZ)
SAME(FLOAT4_E2M1FN)
#undef SAME
_Static_assert(RVM_FLOAT4_E2M1FN + 1 == RVM_NUM_DTYPES, "there is no other");

int library_fail(rvm_error *error, const char *code, const char *format, ...) {
    if (error) {
        va_list list;
        va_start(list, format);
        snprintf(error->code, sizeof error->code, "%s", code);
        vsnprintf(error->message, sizeof error->message, format, list);
        va_end(list);
    }
    return -1;
}

int library_out_of_memory(rvm_error *error) {
    return library_fail(error, "out-of-memory", "there is no memory for it");
}

int library_need(const void *given, const char *what, rvm_error *error) {
    return given ? 0 : library_fail(error, "wrong-argument", "NULL was given for the %s", what);
}

void rvm_library_version(int *major, int *minor, int *patch) {
    *major = RVM_VERSION_MAJOR;
    *minor = RVM_VERSION_MINOR;
    *patch = RVM_VERSION_PATCH;
}

size_t rvm_dtype_size(rvm_dtype dtype) {
    return (unsigned)dtype < RVM_NUM_DTYPES ? rvm_dtype_bytes[dtype] : 0;
}

#if defined(__x86_64__)
#define HOST "x86_64", "amd64"
#elif defined(__aarch64__)
#define HOST "aarch64", "arm64"
#else
#define HOST "unknown", "unknown"
#endif

#if defined(__APPLE__)
#define SYSTEM "darwin"
#define OTHER_SYSTEM "macosx"
#else
#define SYSTEM "linux"
#define OTHER_SYSTEM "linux"
#endif

static bool is_of_this_host(const char *triple) {
    static const char *const names[] = {HOST};
    const size_t size = strcspn(triple, "-");
    for (int i = 0; i < 2; i++) {
        if (strlen(names[i]) == size && memcmp(names[i], triple, size) == 0) {
            return triple[size] == 0 || strstr(triple, SYSTEM) || strstr(triple, OTHER_SYSTEM);
        }
    }
    return false;
}

static int check_image(const rvm_image *image, rvm_error *error) {
    if (!is_of_this_host(image->triple)) {
        return library_fail(error, "native-not-allowed", "the native code is for %.100s, not for this host",
                            image->triple);
    }
    for (const char *name = image->features; *name;) {
        const size_t size = strcspn(name, ",");
        const size_t sign = *name == '+' || *name == '-';
        if (*name != '-' && size > sign && !rvm_host_has_feature(name + sign, size - sign)) {
            return library_fail(error, "native-not-allowed", "the native code needs `%.*s`, which this CPU lacks",
                                (int)(size - sign), name + sign);
        }
        name += size + (name[size] == ',');
    }
    return 0;
}

/* Code of functions that cannot run here is left out: they are interpreted. That of kernels is needed. */
static int link_images(rvm_program *program, rvm_error *error) {
    for (uint32_t i = 0; i < program->num_images; i++) {
        if (program->images[i].num_functions == 0 && check_image(&program->images[i], error)) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < program->num_images; i++) {
        const rvm_image *image = &program->images[i];
        if ((image->num_functions == 0 || check_image(image, NULL) == 0) && rvm_program_link_image(program, i) != 0) {
            return library_out_of_memory(error);
        }
    }
    return 0;
}

/* Consumes the program. */
static rvm_executable *executable_of(rvm_program *program, uint32_t options, rvm_error *error) {
    rvm_executable *executable = calloc(1, sizeof *executable);
    if (!executable) {
        rvm_program_release(program);
        library_out_of_memory(error);
        return NULL;
    }
    executable->references = 1;
    executable->program = program;
    if (manifest_read(executable, error) || (options & RVM_ALLOW_NATIVE && link_images(program, error))) {
        rvm_executable_free(executable);
        return NULL;
    }
    return executable;
}

static uint32_t load_options(uint32_t options) {
    return options & RVM_CHECK_CONSTANTS ? RVM_LOAD_VERIFY_CONSTANTS : 0;
}

static rvm_executable *loaded(rvm_program *program, const rvm_load_error *failure, uint32_t options, rvm_error *error) {
    if (program) {
        return executable_of(program, options, error);
    }
    library_fail(error, failure->code, "%s", failure->message);
    return NULL;
}

rvm_executable *rvm_executable_load_file(const char *path, uint32_t options, rvm_error *error) {
    rvm_load_error failure;
    if (library_need(path, "path", error)) {
        return NULL;
    }
    return loaded(rvm_load_file(path, load_options(options), &failure), &failure, options, error);
}

rvm_executable *rvm_executable_load_memory(const void *bytes, size_t size, uint32_t options, rvm_error *error) {
    rvm_load_error failure;
    if (library_need(bytes, "bytes", error)) {
        return NULL;
    }
    return loaded(rvm_load_bytes(bytes, size, load_options(options), &failure), &failure, options, error);
}

void executable_retain(rvm_executable *executable) {
    atomic_fetch_add_explicit(&executable->references, 1, memory_order_relaxed);
}

void rvm_executable_free(rvm_executable *executable) {
    if (executable && atomic_fetch_sub_explicit(&executable->references, 1, memory_order_acq_rel) == 1) {
        rvm_program_release(executable->program);
        arena_free(&executable->arena);
        free(executable);
    }
}

size_t rvm_executable_num_entries(const rvm_executable *executable) {
    return executable->num_entries;
}

const rvm_entry_description *rvm_executable_entry(const rvm_executable *executable, size_t index) {
    return index < executable->num_entries ? &executable->entries[index] : NULL;
}

const rvm_entry_description *rvm_executable_find_entry(const rvm_executable *executable, const char *name) {
    for (size_t i = 0; i < executable->num_entries; i++) {
        if (strcmp(executable->entries[i].name, name) == 0) {
            return &executable->entries[i];
        }
    }
    return NULL;
}

size_t rvm_executable_num_data_types(const rvm_executable *executable) {
    return executable->num_data_types;
}

const rvm_data_type *rvm_executable_data_type(const rvm_executable *executable, size_t index) {
    return index < executable->num_data_types ? &executable->data_types[index] : NULL;
}

const rvm_constructor *rvm_executable_find_constructor(const rvm_executable *executable, const char *data_type,
                                                       const char *constructor) {
    for (size_t i = 0; i < executable->num_data_types; i++) {
        const rvm_data_type *type = &executable->data_types[i];
        for (size_t c = 0; strcmp(type->name, data_type) == 0 && c < type->num_constructors; c++) {
            if (strcmp(type->constructors[c].name, constructor) == 0) {
                return &type->constructors[c];
            }
        }
    }
    return NULL;
}
