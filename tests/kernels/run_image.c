/* Runs a kernel of a flat image: maps code, fills import slots, calls phases on a file of memory. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int32_t phase_fn(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                         void *scratch, int64_t *values);

static void *load(const char *path, size_t *size, int executable)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        exit(2);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    int protection = PROT_READ | PROT_WRITE | (executable ? PROT_EXEC : 0);
    void *memory = mmap(0, *size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || fread(memory, 1, *size, file) != *size)
        exit(3);
    fclose(file);
    return memory;
}

/* run_image CODE MEMORY OUT [slot name]... -- [phase-offset extent]... @ dims... @ operand-offsets... */
int main(int argc, char **argv)
{
    size_t code_bytes, memory_bytes;
    char *code = load(argv[1], &code_bytes, 1);
    char *memory = load(argv[2], &memory_bytes, 0);
    int at = 4;
    for (; at < argc && strcmp(argv[at], "--"); at += 2) {
        void *address = strcmp(argv[at + 1], "memset") == 0   ? (void *)memset
                        : strcmp(argv[at + 1], "memcpy") == 0 ? (void *)memcpy
                                                              : (void *)memmove;
        memcpy(code + atol(argv[at]), &address, 8);
    }
    __builtin___clear_cache(code, code + code_bytes);
    int phases = ++at;
    while (strcmp(argv[at], "@"))
        at++;
    int64_t dims[64];
    int count = 0;
    for (at++; strcmp(argv[at], "@"); at++)
        dims[count++] = atol(argv[at]);
    void *args[64], *scratch = aligned_alloc(64, 1 << 20);
    count = 0;
    for (at++; at < argc; at++)
        args[count++] = memory + atol(argv[at]);
    args[count] = aligned_alloc(64, 1 << 20);
    int32_t trap = 0;
    int64_t values[2] = {0, 0};
    for (at = phases; !trap && strcmp(argv[at], "@"); at += 2) {
        phase_fn *phase = (phase_fn *)(void *)(code + atol(argv[at]));
        trap = phase(args, dims, 0, atol(argv[at + 1]), scratch, values);
    }
    FILE *out = fopen(argv[3], "wb");
    if (!out || fwrite(memory, 1, memory_bytes, out) != memory_bytes || fclose(out))
        return 4;
    printf("%d %lld %lld\n", trap, (long long)values[0], (long long)values[1]);
    return 0;
}
