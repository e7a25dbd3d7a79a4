/* Inside the loader: the file being read, its sections, and how its parts are taken and refused. */
#ifndef RVM_LOADER_H
#define RVM_LOADER_H

#include "generated/format.h"
#include "program.h"

/* Sections lie in private memory, but for `data`. `cursor` is the number of elements that records
 * have claimed so far: ranges follow each other, so nothing is used twice. */
typedef struct rvm_reader {
    rvm_program *program;
    const uint8_t *base; /* the file's bytes before `data`, at their offsets */
    const uint8_t *section[RVM_NUM_SECTIONS];
    uint64_t offset[RVM_NUM_SECTIONS];
    uint64_t bytes[RVM_NUM_SECTIONS];
    uint64_t checksum[RVM_NUM_SECTIONS];
    uint32_t count[RVM_NUM_SECTIONS];
    uint32_t cursor[RVM_NUM_SECTIONS];
    rvm_load_error *error;
} rvm_reader;

/* All return 0, or -1 (NULL) with the reader's error filled. */
int rvm_fail(rvm_load_error *error, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Refuse the file because of the record at `place`, which lies in it. */
int reader_refuse(const rvm_reader *reader, const void *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Zeroed memory that lives as long as the program. */
void *reader_allocate(rvm_reader *reader, size_t count, size_t size);
const void *reader_take(rvm_reader *reader, const void *place, uint32_t section, uint32_t begin,
                        uint32_t count);
int reader_string(const rvm_reader *reader, const void *place, uint32_t begin, uint32_t bytes,
                  const char **result);
int reader_finish(const rvm_reader *reader);

/* How many bytes are UTF-8, before the first that is not. */
size_t utf8_valid_bytes(const uint8_t *bytes, size_t size);

int reader_functions(rvm_reader *reader);
int reader_layouts(rvm_reader *reader);
int reader_signatures(rvm_reader *reader);
int reader_tensors(rvm_reader *reader);
int reader_hosts(rvm_reader *reader); /* sources, entries */
int reader_kernels(rvm_reader *reader);
int reader_images(rvm_reader *reader);

#endif
