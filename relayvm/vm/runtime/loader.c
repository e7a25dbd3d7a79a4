/* Opens an executable: header, sections, checksums; then tables, verifier and runtime in turn.
 * Everything but the constants is copied to private memory before it is looked at. */
#include "fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tables are read in place");

typedef struct file_header {
    uint8_t magic[8];
    uint32_t version, num_sections;
    uint64_t file_bytes, checksum;
} file_header;
_Static_assert(sizeof(file_header) == 32, "header");

typedef struct file_section {
    uint32_t kind, reserved;
    uint64_t offset, bytes, checksum;
} file_section;
_Static_assert(sizeof(file_section) == 32, "section");

enum { TABLE_BYTES = sizeof(file_header) + RVM_NUM_SECTIONS * sizeof(file_section) };

/* Memory of a program's tables. */
typedef struct rvm_block {
    struct rvm_block *next;
    size_t used, size;
    _Alignas(64) uint8_t bytes[];
} rvm_block;

int rvm_fail(rvm_load_error *error, const char *code, const char *format, ...) {
    va_list arguments;
    snprintf(error->code, sizeof error->code, "%s", code);
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    /* names come from the file: nothing in them may steer a terminal or break a line */
    for (unsigned char *c = (unsigned char *)error->message; *c != 0; c++)
        if (*c < ' ' || *c == 127) *c = '?';
    return -1;
}

int reader_refuse(const rvm_reader *reader, const void *place, const char *format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rvm_fail(reader->error, "bad-executable", "byte %zu: %s",
                    (size_t)((const uint8_t *)place - reader->base), text);
}

static int out_of_memory(rvm_load_error *error) {
    return rvm_fail(error, "out-of-memory", "there is no memory for the executable");
}

void *reader_allocate(rvm_reader *reader, size_t count, size_t size) {
    rvm_program *program = reader->program;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) {
        out_of_memory(reader->error);
        return NULL;
    }
    bytes = (bytes + 15) & ~(size_t)15;
    rvm_block *block = program->blocks;
    if (block == NULL || block->size - block->used < bytes) {
        const size_t room = bytes > 16384 ? bytes : 16384;
        const size_t total = (sizeof(rvm_block) + room + 63) & ~(size_t)63;
        block = aligned_alloc(64, total);
        if (block == NULL) {
            out_of_memory(reader->error);
            return NULL;
        }
        block->next = program->blocks;
        block->used = 0;
        block->size = room;
        program->blocks = block;
    }
    void *result = block->bytes + block->used;
    block->used += bytes;
    memset(result, 0, bytes);
    return result;
}

const void *reader_take(rvm_reader *reader, const void *place, uint32_t section, uint32_t begin,
                        uint32_t count) {
    if (begin != reader->cursor[section] || count > reader->count[section] - begin) {
        reader_refuse(reader, place, "%u elements of section `%s` from %u are not the next of %u",
                      count, section_names[section], begin, reader->count[section]);
        return NULL;
    }
    reader->cursor[section] += count;
    return reader->section[section] + (size_t)begin * section_element_bytes[section];
}

int reader_string(const rvm_reader *reader, const void *place, uint32_t begin, uint32_t bytes,
                  const char **result) {
    const uint32_t size = reader->count[RVM_SECTION_STRINGS];
    const char *strings = (const char *)reader->section[RVM_SECTION_STRINGS];
    /* the section is UTF-8: with a zero at its end, a text is if it begins with a character */
    if (begin >= size || bytes >= size - begin || strings[begin + bytes] != 0 ||
        ((uint8_t)strings[begin] & 0xc0) == 0x80)
        return reader_refuse(reader, place, "no text of %u bytes is at %u of section `strings`",
                             bytes, begin);
    *result = strings + begin;
    return 0;
}

int reader_finish(const rvm_reader *reader) {
    for (uint32_t s = 0; s < RVM_NUM_SECTIONS; s++) {
        if (s == RVM_SECTION_MANIFEST || s == RVM_SECTION_STRINGS || s == RVM_SECTION_DATA)
            continue;
        if (reader->cursor[s] != reader->count[s])
            return rvm_fail(reader->error, "bad-executable",
                            "byte %llu: section `%s` has %u elements, of which %u are used",
                            (unsigned long long)reader->offset[s], section_names[s],
                            reader->count[s], reader->cursor[s]);
    }
    return 0;
}

/* --- header and sections --------------------------------------------------------------------- */

static int check_header(const uint8_t *bytes, uint64_t file_bytes, rvm_load_error *error) {
    static const uint8_t magic[8] = RVM_MAGIC;
    file_header header;
    if (file_bytes < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0)
        return rvm_fail(error, "bad-executable", "byte 0: this is not a RelayVM executable");
    if (file_bytes < sizeof header)
        return rvm_fail(error, "bad-executable", "byte %llu: the file ends inside its header",
                        (unsigned long long)file_bytes);
    memcpy(&header, bytes, sizeof header);
    if (header.version != RVM_FORMAT_VERSION)
        return rvm_fail(error, "executable-version",
                        "the executable has format version %u, this RelayVM reads version %d; "
                        "compile the program again with this RelayVM, or use the one that wrote it",
                        header.version, RVM_FORMAT_VERSION);
    if (header.num_sections != RVM_NUM_SECTIONS)
        return rvm_fail(error, "bad-executable", "byte 12: there are %u sections instead of %d",
                        header.num_sections, RVM_NUM_SECTIONS);
    if (header.file_bytes != file_bytes)
        return rvm_fail(error, "bad-executable",
                        "byte 16: the file has %llu bytes, its header says %llu",
                        (unsigned long long)file_bytes, (unsigned long long)header.file_bytes);
    if (file_bytes < TABLE_BYTES)
        return rvm_fail(error, "bad-executable", "byte %llu: the file ends inside its header",
                        (unsigned long long)file_bytes);
    if (header.checksum !=
        rvm_checksum(bytes, 24) + rvm_checksum(bytes + 32, TABLE_BYTES - sizeof header))
        return rvm_fail(error, "checksum-mismatch",
                        "the checksum of the header differs: the file is damaged");
    return 0;
}

static int check_section(rvm_reader *reader, uint32_t s, const file_section *row, uint64_t end) {
    const unsigned long long place = sizeof(file_header) + (uint64_t)s * sizeof *row;
    const uint64_t file_bytes = reader->program->file_bytes;
    if (row->kind != s || row->reserved != 0)
        return rvm_fail(reader->error, "bad-executable", "byte %llu: section %u must be `%s`",
                        place, s, section_names[s]);
    const int is_large = s == RVM_SECTION_DATA && row->bytes >= RVM_LARGE_BYTES;
    const uint64_t align = is_large ? RVM_PAGE_BYTES : RVM_ALIGN_BYTES;
    if (row->offset != ((end + align - 1) & ~(align - 1)) || row->offset > file_bytes ||
        row->bytes > file_bytes - row->offset)
        return rvm_fail(reader->error, "bad-executable",
                        "byte %llu: section `%s` at %llu, %llu bytes, is out of its place", place,
                        section_names[s], (unsigned long long)row->offset,
                        (unsigned long long)row->bytes);
    const uint64_t size = section_element_bytes[s];
    if (row->bytes % size != 0 || (s != RVM_SECTION_DATA && row->bytes / size >= UINT32_MAX))
        return rvm_fail(reader->error, "bad-executable",
                        "byte %llu: %llu bytes are no table `%s` of elements of %u bytes", place,
                        (unsigned long long)row->bytes, section_names[s], (unsigned)size);
    reader->offset[s] = row->offset;
    reader->bytes[s] = row->bytes;
    reader->checksum[s] = row->checksum;
    reader->count[s] = s == RVM_SECTION_DATA ? 0 : (uint32_t)(row->bytes / size);
    return 0;
}

/* Reads the section table that follows the header in `table`. */
static int check_sections(rvm_reader *reader, const uint8_t *table) {
    uint64_t end = TABLE_BYTES;
    for (uint32_t s = 0; s < RVM_NUM_SECTIONS; s++) {
        file_section row;
        memcpy(&row, table + sizeof(file_header) + s * sizeof row, sizeof row);
        if (check_section(reader, s, &row, end)) return -1;
        end = row.offset + row.bytes;
    }
    if (end != reader->program->file_bytes)
        return rvm_fail(reader->error, "bad-executable", "byte %llu: bytes follow the last section",
                        (unsigned long long)end);
    return 0;
}

static int check_checksums(const rvm_reader *reader, uint32_t options) {
    for (uint32_t s = 0; s < RVM_NUM_SECTIONS; s++) {
        if (s == RVM_SECTION_DATA && !(options & RVM_LOAD_VERIFY_CONSTANTS)) continue;
        if (rvm_checksum(reader->section[s], (size_t)reader->bytes[s]) != reader->checksum[s])
            return rvm_fail(reader->error, "checksum-mismatch",
                            "the checksum of section `%s` (byte %llu, %llu bytes) differs: "
                            "the file is damaged",
                            section_names[s], (unsigned long long)reader->offset[s],
                            (unsigned long long)reader->bytes[s]);
    }
    return 0;
}

static int check_texts(const rvm_reader *reader) {
    static const uint8_t texts[] = {RVM_SECTION_MANIFEST, RVM_SECTION_STRINGS, RVM_SECTION_NESTS};
    for (size_t i = 0; i < sizeof texts; i++) {
        const uint32_t s = texts[i];
        const size_t good = utf8_valid_bytes(reader->section[s], (size_t)reader->bytes[s]);
        if (good != reader->bytes[s])
            return rvm_fail(reader->error, "bad-executable",
                            "byte %llu: section `%s` is not UTF-8 here",
                            (unsigned long long)(reader->offset[s] + good), section_names[s]);
    }
    return 0;
}

/* --- from bytes and files ---------------------------------------------------------------------- */

static int read_tables(rvm_reader *reader) {
    rvm_program *program = reader->program;
    program->manifest = (const char *)reader->section[RVM_SECTION_MANIFEST];
    program->manifest_bytes = reader->count[RVM_SECTION_MANIFEST];
    if (reader_hosts(reader) || reader_functions(reader) || reader_signatures(reader) ||
        reader_layouts(reader) || reader_tensors(reader) || reader_kernels(reader) ||
        reader_images(reader) || reader_finish(reader))
        return -1;
    uint64_t work = 0;
    for (uint32_t f = 0; f < program->num_functions; f++)
        if (rvm_verify_function(program, &program->functions[f], &work, reader->error)) return -1;
    if (reader_fuse(reader)) return -1;
    if (rvm_program_prepare(program)) return out_of_memory(reader->error);
    program->prepared = 1;
    return 0;
}

/* `data` is where the constants are. */
static int read_program(rvm_reader *reader, const uint8_t *data, uint32_t options) {
    rvm_program *program = reader->program;
    for (uint32_t s = 0; s < RVM_NUM_SECTIONS; s++)
        reader->section[s] = reader->base + reader->offset[s];
    reader->section[RVM_SECTION_DATA] = data;
    for (uint32_t s = 0; s < RVM_NUM_SECTIONS; s++) {
        program->sections[s].bytes = reader->section[s];
        program->sections[s].size = (size_t)reader->bytes[s];
    }
    if (check_checksums(reader, options) || check_texts(reader)) return -1;
    return read_tables(reader);
}

static rvm_program *program_new(rvm_load_error *error) {
    rvm_program *program = calloc(1, sizeof *program);
    if (program == NULL) {
        out_of_memory(error);
        return NULL;
    }
    program->references = 1;
    return program;
}

#define LARGE_PAGE_BYTES ((size_t)2 << 20)
#define MANY_PAGES_BYTES ((size_t)4 << 20)

/* Weights that fill many pages lie in large ones: each call of a kernel reads all of them, and would look up a small
 * page for every few rows. */
static void *aligned_memory(size_t bytes, rvm_load_error *error) {
    const size_t align = bytes >= MANY_PAGES_BYTES ? LARGE_PAGE_BYTES : RVM_PAGE_BYTES;
    void *memory = NULL;
    if (bytes <= SIZE_MAX - 2 * LARGE_PAGE_BYTES)
        memory = aligned_alloc(align, (bytes + 64 + align - 1) & ~(align - 1));
    if (memory == NULL) out_of_memory(error);
#ifdef MADV_HUGEPAGE
    else if (align == LARGE_PAGE_BYTES)
        madvise(memory, (bytes + align - 1) & ~(align - 1), MADV_HUGEPAGE);
#endif
    return memory;
}

/* Read the file that lies in the program's own memory. */
static int load_memory(rvm_reader *reader, uint32_t options) {
    rvm_program *program = reader->program;
    reader->base = program->memory;
    if (check_header(reader->base, program->file_bytes, reader->error)) return -1;
    if (check_sections(reader, reader->base)) return -1;
    return read_program(reader, reader->base + reader->offset[RVM_SECTION_DATA], options);
}

static int load_bytes(rvm_reader *reader, const void *bytes, uint32_t options) {
    rvm_program *program = reader->program;
    if (check_header(bytes, program->file_bytes, reader->error)) return -1;
    program->memory = aligned_memory(program->file_bytes, reader->error);
    if (program->memory == NULL) return -1;
    memcpy(program->memory, bytes, program->file_bytes);
    /* the header is checked again, in case another thread writes to the caller's buffer */
    return load_memory(reader, options);
}

static int read_fully(int file, uint8_t *to, size_t bytes, rvm_load_error *error) {
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = pread(file, to + done, bytes - done, (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return rvm_fail(error, "bad-executable", "byte %zu: the file cannot be read: %s", done,
                            got < 0 ? strerror(errno) : "it ended");
        done += (size_t)got;
    }
    return 0;
}

/* Map the constants; the page before them holds other sections, which are not used. */
static const uint8_t *map_data(rvm_reader *reader, int file) {
    static _Alignas(64) const uint8_t nothing[64];
    rvm_program *program = reader->program;
    const uint64_t offset = reader->offset[RVM_SECTION_DATA];
    const size_t bytes = (size_t)reader->bytes[RVM_SECTION_DATA];
    if (bytes == 0) return nothing;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t before = offset % page;
    const size_t length = bytes + (size_t)before;
    void *mapping = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, (off_t)(offset - before));
    if (mapping == MAP_FAILED) {
        out_of_memory(reader->error);
        return NULL;
    }
    program->mapping = mapping;
    program->mapping_bytes = length;
    return (const uint8_t *)mapping + before;
}

static int load_file(rvm_reader *reader, int file, uint32_t options) {
    rvm_program *program = reader->program;
    uint8_t table[TABLE_BYTES] = {0};
    const size_t known = program->file_bytes < TABLE_BYTES ? program->file_bytes : TABLE_BYTES;
    if (read_fully(file, table, known, reader->error)) return -1;
    if (check_header(table, program->file_bytes, reader->error)) return -1;
    if (check_sections(reader, table)) return -1;
    const size_t private_bytes = (size_t)reader->offset[RVM_SECTION_DATA];
    uint8_t *memory = aligned_memory(private_bytes, reader->error);
    program->memory = memory;
    if (memory == NULL || read_fully(file, memory, private_bytes, reader->error)) return -1;
    reader->base = memory;
    const uint8_t *data = map_data(reader, file);
    return data == NULL ? -1 : read_program(reader, data, options);
}

rvm_program *rvm_load_bytes(const void *bytes, size_t size, uint32_t options,
                            rvm_load_error *error) {
    rvm_reader reader = {.program = program_new(error), .error = error};
    if (reader.program == NULL) return NULL;
    reader.program->file_bytes = size;
    if (load_bytes(&reader, bytes, options) == 0) return reader.program;
    rvm_program_release(reader.program);
    return NULL;
}

uint8_t *rvm_file_memory(size_t size, rvm_load_error *error) {
    return aligned_memory(size, error);
}

rvm_program *rvm_load_memory(uint8_t *memory, size_t size, uint32_t options, rvm_load_error *error) {
    rvm_reader reader = {.program = program_new(error), .error = error};
    if (reader.program == NULL) {
        free(memory);
        return NULL;
    }
    reader.program->file_bytes = size;
    reader.program->memory = memory;
    if (load_memory(&reader, options) == 0) return reader.program;
    rvm_program_release(reader.program);
    return NULL;
}

rvm_program *rvm_load_file(const char *path, uint32_t options, rvm_load_error *error) {
    struct stat status;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make it wait */
    if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        rvm_fail(error, "bad-executable", "`%.300s` cannot be read: %s", path,
                 file < 0 ? strerror(errno) : "it is not a file");
        if (file >= 0) close(file);
        return NULL;
    }
    rvm_reader reader = {.program = program_new(error), .error = error};
    if (reader.program == NULL) {
        close(file);
        return NULL;
    }
    reader.program->file_bytes = (size_t)status.st_size;
    const int failed = load_file(&reader, file, options);
    close(file);
    if (!failed) return reader.program;
    rvm_program_release(reader.program);
    return NULL;
}

void rvm_program_retain(rvm_program *program) {
    __atomic_add_fetch(&program->references, 1, __ATOMIC_RELAXED);
}

void rvm_program_release(rvm_program *program) {
    if (__atomic_sub_fetch(&program->references, 1, __ATOMIC_ACQ_REL) != 0) return;
    if (program->prepared) rvm_program_unprepare(program);
    rvm_program_unmap_code(program);
    for (rvm_block *block = program->blocks; block != NULL;) {
        rvm_block *next = block->next;
        free(block);
        block = next;
    }
    if (program->mapping != NULL) munmap(program->mapping, program->mapping_bytes);
    free(program->memory);
    free(program);
}

const uint8_t *rvm_program_section(const rvm_program *program, uint32_t section, size_t *size) {
    if (section >= RVM_NUM_SECTIONS) return NULL;
    *size = program->sections[section].size;
    return program->sections[section].bytes;
}
