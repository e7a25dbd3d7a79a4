/* Whether values that a program gave have the sizes that another type declares, as `vm/sizes.py` tells it for Python.
 * Types that differ in sizes only have one layout, so layouts do not tell. What the type of a value leaves open is
 * compared in the value, by value_sizes.c. */
#include <stdlib.h>

#include "library.h"

/* How values of one type come to be values of another: they are at hand; they are results of a function that was given;
 * they are arguments of it, and the type that is declared comes first. */
typedef enum flow { COMPARED, RESULT, PARAMETER } flow;

typedef struct numbers {
    int64_t *items;
    size_t count, capacity;
} numbers;

/* `fits` is false where some values of the first type are none of the second. At `links` is the number of rows of pairs
 * inside, one for each constructor of a data type, then each row: its length and the pairs. */
typedef struct pair {
    const rvm_type *first, *second;
    flow way;
    bool fits;
    size_t links;
    int64_t start; /* in the rows of value_sizes.c, 0 where that need not look */
} pair;

typedef struct pairs {
    const known_sizes *sizes;
    pair *items;
    size_t count, capacity;
    numbers links;
    size_t *table; /* from both types and the flow to the number of a pair and 1; twice as large as it may get full */
    size_t table_capacity;
    bool no_memory;
} pairs;

static size_t append(pairs *p, numbers *to, int64_t number) {
    if (to->count == to->capacity) {
        const size_t wanted = to->capacity ? to->capacity * 2 : 64;
        int64_t *grown = realloc(to->items, wanted * sizeof *grown);
        if (!grown) {
            p->no_memory = true;
            return 0;
        }
        to->items = grown;
        to->capacity = wanted;
    }
    to->items[to->count] = number;
    return to->count++;
}

/* Data types have one description, however many types name them. */
static const void *identity(const rvm_type *type) {
    return type->data ? (const void *)type->data : (const void *)type;
}

static size_t *slot_of(const pairs *p, const rvm_type *first, const rvm_type *second, flow way) {
    const uintptr_t a = (uintptr_t)identity(first), b = (uintptr_t)identity(second);
    size_t at = (size_t)((a >> 4) * 0x9E3779B97F4A7C15u + (b >> 4) * 0xC2B2AE3D27D4EB4Fu + way);
    for (;; at++) {
        size_t *slot = &p->table[at & (p->table_capacity - 1)];
        const pair *known = *slot ? &p->items[*slot - 1] : NULL;
        if (!known || (identity(known->first) == identity(first) && identity(known->second) == identity(second) &&
                       known->way == way)) {
            return slot;
        }
    }
}

static bool make_room(pairs *p) {
    if (p->count < p->capacity) {
        return true;
    }
    const size_t wanted = p->capacity ? p->capacity * 2 : 32;
    pair *grown = realloc(p->items, wanted * sizeof *grown);
    p->items = grown ? grown : p->items;
    size_t *table = grown ? calloc(wanted * 2, sizeof *table) : NULL;
    if (!table) {
        return false;
    }
    free(p->table);
    p->table = table;
    p->table_capacity = wanted * 2;
    p->capacity = wanted;
    for (size_t i = 0; i < p->count; i++) {
        *slot_of(p, p->items[i].first, p->items[i].second, p->items[i].way) = i + 1;
    }
    return true;
}

static int64_t number_of_pair(pairs *p, const rvm_type *first, const rvm_type *second, flow way) {
    if (!make_room(p)) {
        p->no_memory = true;
        return 0;
    }
    size_t *slot = slot_of(p, first, second, way);
    if (!*slot) {
        p->items[p->count++] = (pair){.first = first, .second = second, .way = way, .fits = true};
        *slot = p->count;
    }
    return (int64_t)*slot - 1;
}

/* --- types ------------------------------------------------------------------------------------------ */

static bool is_comparable(const rvm_type *first, const rvm_type *second) {
    return first->kind == RVM_KIND_OF_TENSOR && second->kind == RVM_KIND_OF_TENSOR && first->dtype == second->dtype &&
           first->rank == second->rank;
}

/* The number of a size, where it is one or its names have the numbers that are known; else -1. */
static int64_t number_of_size(const pairs *p, const rvm_type *type, uint32_t axis) {
    int64_t number;
    const char *name = type->dim_names[axis];
    return name && size_of_dim(name, p->sizes, &number) && number >= 0 ? number : type->dims[axis];
}

/* Whether all tensors of the first type are of the second. Sizes that have names and are not known agree with any: those
 * that are declared, and those of a function that was given. */
static bool fits_tensor(const pairs *p, const pair *both) {
    const rvm_type *first = both->first, *second = both->second;
    if (!is_comparable(first, second)) {
        return false;
    }
    for (uint32_t i = 0; i < first->rank; i++) {
        int64_t given = first->dims[i], wanted = second->dims[i];
        bool named = false;
        if (both->way == RESULT) {
            given = number_of_size(p, first, i);
            named = given < 0 && first->dim_names[i];
        } else if (both->way == PARAMETER) {
            wanted = number_of_size(p, second, i);
            named = given < 0 && first->dim_names[i];
        }
        if (wanted >= 0 && given != wanted && !named) {
            return false;
        }
    }
    return true;
}

static void open_function(pairs *p, size_t number) {
    const pair both = p->items[number];
    const flow back = both.way == PARAMETER ? RESULT : PARAMETER, on = both.way == PARAMETER ? PARAMETER : RESULT;
    const size_t count = both.first->num_fields;
    p->items[number].links = append(p, &p->links, 1);
    append(p, &p->links, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        const rvm_type *first = both.first->fields[i], *second = both.second->fields[i];
        const bool last = i + 1 == count;
        append(p, &p->links, last ? number_of_pair(p, first, second, on) : number_of_pair(p, second, first, back));
    }
}

static void append_row(pairs *p, const rvm_type *const *first, const rvm_type *const *second, size_t count, flow way) {
    append(p, &p->links, (int64_t)count);
    for (size_t i = 0; i < count; i++) {
        append(p, &p->links, number_of_pair(p, first[i], second[i], way));
    }
}

static void open_data(pairs *p, size_t number) {
    const pair both = p->items[number];
    const rvm_data_type *first = both.first->data, *second = both.second->data;
    bool fits = first->num_constructors == second->num_constructors;
    for (size_t i = 0; fits && i < first->num_constructors; i++) {
        fits = first->constructors[i].num_fields == second->constructors[i].num_fields;
    }
    p->items[number].fits = fits;
    if (fits) {
        p->items[number].links = append(p, &p->links, (int64_t)first->num_constructors);
        for (size_t i = 0; i < first->num_constructors; i++) {
            append_row(p, first->constructors[i].fields, second->constructors[i].fields,
                       first->constructors[i].num_fields, both.way);
        }
    }
}

/* Numbers what is inside of a pair, and finds out whether it fits as far as that tells. */
static void open_pair(pairs *p, size_t number) {
    const pair both = p->items[number];
    const rvm_type *first = both.first, *second = both.second;
    if (identity(first) == identity(second)) {
        return;
    }
    if (first->kind != second->kind || (!first->data && first->num_fields != second->num_fields)) {
        p->items[number].fits = false;
    } else if (first->kind == RVM_KIND_OF_TENSOR) {
        p->items[number].fits = fits_tensor(p, &both);
    } else if (first->kind == RVM_KIND_OF_DATA) {
        open_data(p, number);
    } else if (first->kind == RVM_KIND_OF_FUNCTION) {
        open_function(p, number);
    } else {
        p->items[number].links = append(p, &p->links, 1);
        append_row(p, first->fields, second->fields, first->num_fields, both.way);
    }
}

static bool fits_inside(const pairs *p, const pair *both) {
    const int64_t *at = p->links.items + both->links;
    for (int64_t rows = *at++; rows > 0; rows--) {
        for (int64_t count = *at++; count > 0; count--) {
            if (!p->items[*at++].fits) {
                return false;
            }
        }
    }
    return true;
}

/* A pair does not fit where one inside of it does not. What is inside mostly has the larger number. */
static void spread(pairs *p) {
    for (bool changed = true, up = false; changed; up = !up) {
        changed = false;
        for (size_t i = 0; i < p->count; i++) {
            pair *both = &p->items[up ? i : p->count - 1 - i];
            if (both->fits && !fits_inside(p, both)) {
                both->fits = false;
                changed = true;
            }
        }
    }
}

/* --- rows ------------------------------------------------------------------------------------------- */

/* The pairs inside follow as their numbers, which `link_rows` replaces. */
static void append_cell(pairs *p, numbers *rows, const pair *both) {
    const rvm_type *declared = both->second;
    const int64_t *at = p->links.items + both->links;
    const int64_t num_rows = *at++;
    append(p, rows, RVM_SIZES_CELL);
    append(p, rows, declared->data ? declared->data->constructors[0].layout : declared->layout);
    append(p, rows, num_rows);
    const size_t places = rows->count;
    for (int64_t i = 0; i < num_rows; i++) {
        append(p, rows, 0);
    }
    for (int64_t i = 0; i < num_rows && !p->no_memory; i++) {
        rows->items[places + (size_t)i] = (int64_t)rows->count;
        const int64_t count = *at++;
        append(p, rows, count);
        for (int64_t k = 0; k < count; k++) {
            append(p, rows, *at++);
        }
    }
}

static void append_pair(pairs *p, numbers *rows, pair *both) {
    const rvm_kind kind = both->first->kind;
    const int64_t *inside = p->links.items + both->links;
    both->start = (int64_t)rows->count;
    if (is_comparable(both->first, both->second)) {
        append(p, rows, RVM_SIZES_TENSOR);
        append(p, rows, both->second->rank);
        for (uint32_t i = 0; i < both->second->rank; i++) {
            append(p, rows, both->second->dims[i]);
        }
    } else if (kind == RVM_KIND_OF_FUNCTION || !inside[0]) {
        append(p, rows, RVM_SIZES_DIFFER);
    } else if (kind == RVM_KIND_OF_ARRAY || kind == RVM_KIND_OF_REFERENCE) {
        append(p, rows, kind == RVM_KIND_OF_ARRAY ? RVM_SIZES_ARRAY : RVM_SIZES_REFERENCE);
        append(p, rows, inside[2]);
    } else {
        append_cell(p, rows, both);
    }
}

static void link(const pairs *p, int64_t *place) {
    *place = p->items[*place].start;
}

static void link_rows(const pairs *p, numbers *rows, const pair *both) {
    int64_t *at = rows->items + both->start;
    if (*at == RVM_SIZES_ARRAY || *at == RVM_SIZES_REFERENCE) {
        link(p, &at[1]);
    } else if (*at == RVM_SIZES_CELL) {
        for (int64_t i = 0; i < at[2]; i++) {
            int64_t *row = rows->items + at[3 + i];
            for (int64_t k = 0; k < row[0]; k++) {
                link(p, &row[1 + k]);
            }
        }
    }
}

/* Only what is at hand is looked at; the first row says that all values fit. */
static void make_rows(pairs *p, numbers *rows) {
    append(p, rows, RVM_SIZES_FIT);
    for (size_t i = 0; i < p->count && !p->no_memory; i++) {
        if (!p->items[i].fits && p->items[i].way == COMPARED) {
            append_pair(p, rows, &p->items[i]);
        }
    }
    for (size_t i = 0; i < p->count && !p->no_memory; i++) {
        if (p->items[i].start) {
            link_rows(p, rows, &p->items[i]);
        }
    }
}

/* --- values ------------------------------------------------------------------------------------------- */

int pairs_accept(const rvm_value *value, const rvm_type *declared, rvm_misfit *misfit) {
    pairs p = {.sizes = value->sizes};
    numbers rows = {NULL, 0, 0};
    append(&p, &p.links, 0); /* no rows: of pairs that have none inside */
    number_of_pair(&p, value->type, declared, COMPARED);
    for (size_t i = 0; i < p.count && !p.no_memory; i++) { /* their number grows */
        open_pair(&p, i);
    }
    int fits = -1;
    if (!p.no_memory) {
        spread(&p);
        fits = p.items[0].fits;
        if (!fits) {
            make_rows(&p, &rows);
            fits = p.no_memory ? -1 : rvm_value_has_sizes(value->item, rows.items, (uint64_t)p.items[0].start, misfit);
        }
    }
    free(p.items);
    free(p.links.items);
    free(p.table);
    free(rows.items);
    return fits;
}
