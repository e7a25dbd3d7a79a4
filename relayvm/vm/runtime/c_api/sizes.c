/* Numbers that names of sizes have: those of a call, which its results keep, and what is computed of them. */
#include <stdlib.h>

#include "library.h"

#define DEEPEST 64 /* of what is written inside of other dims; what is deeper has no number */

/* --- of a call ---------------------------------------------------------------------------------- */

known_sizes *sizes_retain(known_sizes *sizes) {
    if (sizes) {
        atomic_fetch_add_explicit(&sizes->references, 1, memory_order_relaxed);
    }
    return sizes;
}

void sizes_free(known_sizes *sizes) {
    if (sizes && atomic_fetch_sub_explicit(&sizes->references, 1, memory_order_acq_rel) == 1) {
        free(sizes);
    }
}

static bool find_size(const known_sizes *sizes, const char *name, size_t length, int64_t *size) {
    for (size_t i = 0; sizes && i < sizes->count; i++) {
        const char *known = sizes->rows[i].name;
        if (strncmp(known, name, length) == 0 && !known[length]) {
            *size = sizes->rows[i].size;
            return true;
        }
    }
    return false;
}

static void add_size(known_sizes *sizes, const char *name, int64_t size) {
    int64_t known;
    if (!find_size(sizes, name, strlen(name), &known)) {
        sizes->rows[sizes->count].name = name;
        sizes->rows[sizes->count++].size = size;
    }
}

bool sizes_of_call(const known_sizes *before, const rvm_type *const *parameters, const rvm_value *const *arguments,
                   size_t num_arguments, known_sizes **made) {
    size_t most = before ? before->count : 0;
    for (size_t i = 0; i < num_arguments; i++) {
        most += parameters[i]->kind == RVM_KIND_OF_TENSOR ? parameters[i]->rank : 0;
    }
    *made = NULL;
    if (!most) {
        return true;
    }
    known_sizes *sizes = calloc(1, sizeof *sizes + most * sizeof *sizes->rows);
    if (!sizes) {
        return false;
    }
    sizes->references = 1;
    for (size_t i = 0; i < num_arguments; i++) {
        const rvm_type *type = parameters[i];
        for (uint32_t k = 0; type->kind == RVM_KIND_OF_TENSOR && k < type->rank; k++) {
            if (type->dim_names[k]) {
                add_size(sizes, type->dim_names[k], rvm_value_tensor(arguments[i]).dims[k]);
            }
        }
    }
    for (size_t i = 0; before && i < before->count; i++) { /* a name of this call hides one of before */
        add_size(sizes, before->rows[i].name, before->rows[i].size);
    }
    *made = sizes;
    return true;
}

/* --- of a dim ------------------------------------------------------------------------------------ */

typedef struct reader {
    const char *at;
    const known_sizes *sizes;
    unsigned depth;
} reader;

/* All of them read what they can and return false where that has no number. */
static bool read_sum(reader *r, int64_t *number);

static void skip_spaces(reader *r) {
    while (*r->at == ' ') {
        r->at++;
    }
}

static bool take_text(reader *r, const char *text) {
    skip_spaces(r);
    const size_t length = strlen(text);
    const bool found = strncmp(r->at, text, length) == 0;
    r->at += found ? length : 0;
    return found;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool read_literal(reader *r, int64_t *number) {
    *number = 0;
    for (; is_digit(*r->at); r->at++) {
        if (__builtin_mul_overflow(*number, 10, number) || __builtin_add_overflow(*number, *r->at - '0', number)) {
            return false;
        }
    }
    return true;
}

static bool apply(const char *name, size_t length, int64_t a, int64_t b, int64_t *number) {
    if (length == 3 && memcmp(name, "min", 3) == 0) {
        *number = a < b ? a : b;
        return true;
    }
    if (length == 3 && memcmp(name, "max", 3) == 0) {
        *number = a < b ? b : a;
        return true;
    }
    *number = a == 1 ? b : a;
    return length == 9 && memcmp(name, "broadcast", 9) == 0 && (a == b || a == 1 || b == 1);
}

static bool read_name(reader *r, int64_t *number) {
    const char *name = r->at;
    int64_t a, b;
    while (is_letter(*r->at) || is_digit(*r->at)) {
        r->at++;
    }
    const size_t length = (size_t)(r->at - name);
    if (!take_text(r, "(")) {
        return find_size(r->sizes, name, length, number);
    }
    return read_sum(r, &a) && take_text(r, ",") && read_sum(r, &b) && take_text(r, ")") &&
           apply(name, length, a, b, number);
}

static bool read_atom(reader *r, int64_t *number) {
    if (take_text(r, "-")) {
        const bool known = r->depth++ < DEEPEST && read_atom(r, number);
        r->depth--;
        return known && !__builtin_sub_overflow(0, *number, number);
    }
    if (take_text(r, "(")) {
        return read_sum(r, number) && take_text(r, ")");
    }
    return is_digit(*r->at) ? read_literal(r, number) : is_letter(*r->at) && read_name(r, number);
}

/* Rounds down, and a remainder has the sign of the divisor. */
static bool divide(int64_t a, int64_t b, bool remainder, int64_t *number) {
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        return false;
    }
    const bool down = a % b != 0 && (a < 0) != (b < 0);
    *number = remainder ? a % b + (down ? b : 0) : a / b - (down ? 1 : 0);
    return true;
}

static bool read_product(reader *r, int64_t *number) {
    int64_t other;
    bool known = read_atom(r, number);
    while (known) {
        if (take_text(r, "*")) {
            known = read_atom(r, &other) && !__builtin_mul_overflow(*number, other, number);
        } else if (take_text(r, "//")) {
            known = read_atom(r, &other) && divide(*number, other, false, number);
        } else if (take_text(r, "%")) {
            known = read_atom(r, &other) && divide(*number, other, true, number);
        } else {
            break;
        }
    }
    return known;
}

static bool read_sum(reader *r, int64_t *number) {
    int64_t other;
    bool known = r->depth++ < DEEPEST && read_product(r, number);
    while (known) {
        if (take_text(r, "+")) {
            known = read_product(r, &other) && !__builtin_add_overflow(*number, other, number);
        } else if (take_text(r, "-")) {
            known = read_product(r, &other) && !__builtin_sub_overflow(*number, other, number);
        } else {
            break;
        }
    }
    r->depth--;
    return known;
}

bool size_of_dim(const char *dim, const known_sizes *sizes, int64_t *number) {
    reader r = {.at = dim, .sizes = sizes};
    if (find_size(sizes, dim, strlen(dim), number)) {
        return true;
    }
    if (!sizes || !read_sum(&r, number)) {
        return false;
    }
    skip_spaces(&r);
    return !*r.at;
}
