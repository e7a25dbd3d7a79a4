/* Whether a value of the program has the sizes that a type declares, in constant C stack. */
#include "array.h"
#include "reference.h"
#include "tensor.h"
#include "value.h"

#include <stdlib.h>
#include <string.h>

typedef struct place {
    uint64_t value;
    uint64_t row;
} place;

typedef struct walk {
    const int64_t *rows;
    place *open; /* still to be looked at */
    size_t num_open, open_capacity;
    place *seen; /* a hash table, of objects that are reached on several ways; its capacity is a power of two */
    size_t num_seen, seen_capacity;
    uint64_t *held; /* contents of references, which others may write meanwhile */
    size_t num_held, held_capacity;
} walk;

static bool make_room(void **items, size_t count, size_t *capacity, size_t item_bytes) {
    if (count < *capacity) {
        return true;
    }
    const size_t wanted = *capacity ? *capacity * 2 : 64;
    void *grown = realloc(*items, wanted * item_bytes);
    if (grown) {
        *items = grown;
        *capacity = wanted;
    }
    return grown != NULL;
}

static bool push(walk *w, uint64_t value, int64_t row) {
    if (w->rows[row] == RVM_SIZES_FIT) {
        return true;
    }
    if (!make_room((void **)&w->open, w->num_open, &w->open_capacity, sizeof *w->open)) {
        return false;
    }
    w->open[w->num_open++] = (place){value, (uint64_t)row};
    return true;
}

/* The slot of a place, or the free one where it goes. */
static place *slot_of(place *table, size_t capacity, place wanted) {
    size_t at = (size_t)((wanted.value >> 4) * 0x9E3779B97F4A7C15u + wanted.row * 31) & (capacity - 1);
    while (table[at].value && (table[at].value != wanted.value || table[at].row != wanted.row)) {
        at = (at + 1) & (capacity - 1);
    }
    return &table[at];
}

static bool grow_seen(walk *w) {
    const size_t capacity = w->seen_capacity ? w->seen_capacity * 2 : 64;
    place *table = calloc(capacity, sizeof *table);
    for (size_t i = 0; table && i < w->seen_capacity; i++) {
        if (w->seen[i].value) {
            *slot_of(table, capacity, w->seen[i]) = w->seen[i];
        }
    }
    if (table) {
        free(w->seen);
        w->seen = table;
        w->seen_capacity = capacity;
    }
    return table != NULL;
}

/* 1 the first time, 0 from then on, -1 where memory ran out. What one place refers to is reached once in any case. */
static int is_new(walk *w, place given) {
    const int32_t count = object_count(word_object(given.value));
    if (count == 1 || count == -1) {
        return 1;
    }
    if (2 * w->num_seen >= w->seen_capacity && !grow_seen(w)) {
        return -1;
    }
    place *slot = slot_of(w->seen, w->seen_capacity, given);
    if (slot->value) {
        return 0;
    }
    *slot = given;
    w->num_seen++;
    return 1;
}

static bool fits_tensor(const rvm_object *object, const int64_t *row) {
    const rvm_tensor *tensor = (const rvm_tensor *)(const void *)object;
    if (object->kind != RVM_TENSOR || tensor->rank != row[1]) {
        return false;
    }
    for (unsigned i = 0; i < tensor->rank; i++) {
        if (row[2 + i] >= 0 && row[2 + i] != tensor->dims[i]) {
            return false;
        }
    }
    return true;
}

/* 1 with the fields pushed, 0 where the object is no such cell, -1 where memory ran out. */
static int open_cell(walk *w, const rvm_object *object, const int64_t *row) {
    const rvm_cell *cell = (const rvm_cell *)(const void *)object;
    const int64_t number = (int64_t)object->layout - row[1];
    if (object->kind != RVM_CELL || number < 0 || number >= row[2]) {
        return 0;
    }
    const int64_t *fields = w->rows + row[3 + number];
    if (cell->shape->num_fields != fields[0]) {
        return 0;
    }
    for (unsigned i = cell->shape->num_fields; i-- > 0;) {
        if (cell->shape->field_class[i] != RVM_CLASS_WORD && !push(w, cell->fields[i], fields[1 + i])) {
            return -1;
        }
    }
    return 1;
}

static int open_array(walk *w, uint64_t value, int64_t item) {
    if (word_object(value)->kind != RVM_ARRAY) {
        return 0;
    }
    const rvm_array *array = word_array(value);
    if (array->shape->field_class[0] == RVM_CLASS_WORD) {
        return 1;
    }
    for (uint64_t i = array->length; i-- > 0;) {
        if (!push(w, array->items[i], item)) {
            return -1;
        }
    }
    return 1;
}

static int open_reference(walk *w, uint64_t value, int64_t content) {
    rvm_ref *ref = (rvm_ref *)(uintptr_t)value;
    uint64_t held;
    if (ref->head.kind != RVM_REF) {
        return 0;
    }
    if (ref->shape->field_class[0] == RVM_CLASS_WORD || !reference_read(ref, &held)) {
        return 1;
    }
    if (!make_room((void **)&w->held, w->num_held, &w->held_capacity, sizeof *w->held)) {
        rvm_value_release(held);
        return -1;
    }
    w->held[w->num_held++] = held;
    return push(w, held, content) ? 1 : -1;
}

static int look(walk *w, place given) {
    const int64_t *row = w->rows + given.row;
    const rvm_object *object = word_object(given.value);
    if (*row == RVM_SIZES_DIFFER || *row == RVM_SIZES_TENSOR) {
        return *row == RVM_SIZES_TENSOR && fits_tensor(object, row);
    }
    const int fresh = is_new(w, given);
    if (fresh != 1) {
        return fresh == 0 ? 1 : -1;
    }
    switch (*row) {
    case RVM_SIZES_CELL:
        return open_cell(w, object, row);
    case RVM_SIZES_ARRAY:
        return open_array(w, given.value, row[1]);
    default:
        return open_reference(w, given.value, row[1]);
    }
}

static void tell_misfit(place given, rvm_misfit *misfit) {
    const rvm_object *object = word_object(given.value);
    memset(misfit, 0, sizeof *misfit);
    misfit->row = given.row;
    if (object->kind == RVM_TENSOR) {
        const rvm_tensor *tensor = (const rvm_tensor *)(const void *)object;
        misfit->rank = tensor->rank;
        memcpy(misfit->dims, tensor->dims, tensor->rank * sizeof *tensor->dims);
    }
}

int rvm_value_has_sizes(uint64_t value, const int64_t *rows, uint64_t root, rvm_misfit *misfit) {
    walk w = {.rows = rows};
    place last = {value, root};
    int fits = push(&w, value, (int64_t)root) ? 1 : -1;
    while (fits == 1 && w.num_open) {
        last = w.open[--w.num_open];
        fits = look(&w, last);
    }
    if (misfit && fits == 0) {
        tell_misfit(last, misfit);
    }
    for (size_t i = 0; i < w.num_held; i++) {
        rvm_value_release(w.held[i]);
    }
    free(w.open);
    free(w.seen);
    free(w.held);
    return fits;
}
