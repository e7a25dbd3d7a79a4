/* References that only cycles keep alive: found by trial deletion while a program runs, and without a search once no
 * frame is left. Those that the host shares are searched for by `shared_cycles.c`. Every pointer that a register or a C variable owns has its count, so a count which the objects behind
 * the machine's references do not explain means that somebody else holds the object; this is true at any allocation. */
#include "cycles.h"

#include <stdlib.h>
#include <string.h>

#define SPARE_BYTES ((uint64_t)16 * 1024 * 1024) /* garbage that is not worth a search */
#define FIRST_REFS 1024u
#define NO_ROW UINT32_MAX
#define MOST_KEPT_ROWS ((uint32_t)64 * 1024)

static uint32_t *slot_of(const cycle_table *table, const rvm_object *object) {
    const uint64_t mask = (uint64_t)table->capacity * 2 - 1;
    uint64_t at = ((uint64_t)(uintptr_t)object >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20 & mask;
    while (table->slots[at] != NO_ROW && table->rows[table->slots[at]].object != object) {
        at = (at + 1) & mask;
    }
    return &table->slots[at];
}

static bool table_grow(cycle_table *table) {
    uint64_t capacity = table->capacity ? (uint64_t)table->capacity * 2 : 256;
    if (capacity > UINT32_MAX / 4) {
        return false;
    }
    cycle_row *rows = realloc(table->rows, capacity * sizeof *rows);
    if (!rows) {
        return false;
    }
    table->rows = rows;
    uint32_t *slots = malloc(capacity * 2 * sizeof *slots);
    if (!slots) {
        return false;
    }
    free(table->slots);
    table->slots = slots;
    table->capacity = (uint32_t)capacity;
    memset(slots, 0xff, capacity * 2 * sizeof *slots);
    for (uint32_t i = 0; i < table->length; i++) {
        *slot_of(table, rows[i].object) = i;
    }
    return true;
}

/* The row of an object, new if need be; null where memory is out, and then the search is given up. */
static cycle_row *row_of(cycle_table *table, rvm_object *object) {
    if (table->length >= table->most && table->shared && *slot_of(table, object) == NO_ROW) {
        table->failed = true;
        return NULL;
    }
    if (table->length == table->capacity && !table_grow(table)) {
        table->failed = true;
        return NULL;
    }
    uint32_t *slot = slot_of(table, object);
    if (*slot == NO_ROW) {
        *slot = table->length++;
        table->rows[*slot] = (cycle_row){.object = object, .next = NO_ROW};
    }
    return &table->rows[*slot];
}

typedef void (*visitor)(cycle_table *table, rvm_object *child);

/* Objects of other threads and those that reach no reference are no part of a cycle of ours. */
static void visit(cycle_table *table, uint64_t word, visitor see) {
    rvm_object *object = word_object(word);
    if (object && cycles_may_pass(object, table->shared)) {
        see(table, object);
    }
}

static void visit_children(cycle_table *table, const rvm_object *object, visitor see) {
    if (object->kind == RVM_REF) {
        const rvm_ref *ref = (const rvm_ref *)(const void *)object;
        if (ref->full && ref->shape->num_object_fields) {
            visit(table, ref->value, see);
        }
    } else if (object->kind == RVM_ARRAY) {
        const rvm_array *array = (const rvm_array *)(const void *)object;
        for (uint64_t i = 0; array->shape->num_object_fields && i < array->length; i++) {
            visit(table, array->items[i], see);
        }
    } else {
        const rvm_cell *cell = (const rvm_cell *)(const void *)object;
        for (unsigned i = 0; i < cell->shape->num_object_fields; i++) {
            visit(table, cell->fields[cell->shape->object_fields[i]], see);
        }
    }
}

static void explain(cycle_table *table, rvm_object *child) {
    cycle_row *row = row_of(table, child);
    if (row) {
        row->explained++;
    }
}

static void enliven(cycle_table *table, rvm_object *child) {
    cycle_row *row = &table->rows[*slot_of(table, child)];
    if (!row->live) {
        row->live = true;
        row->next = table->waiting;
        table->waiting = (uint32_t)(row - table->rows);
    }
}

bool cycles_may_pass(const rvm_object *object, bool shared) {
    int32_t count = object_count(object);
    return (shared ? count < 0 : object_is_local(count)) && object->kind != RVM_TENSOR &&
           ((const rvm_cell *)(const void *)object)->shape->cyclic;
}

void cycles_add(cycle_table *table, rvm_object *object, int32_t explained) {
    cycle_row *row = table->failed ? NULL : row_of(table, object);
    if (row) {
        row->explained += explained;
    }
}

bool cycles_follow(cycle_table *table) {
    for (uint32_t i = 0; i < table->length && !table->failed; i++) {
        visit_children(table, table->rows[i].object, explain);
    }
    return !table->failed;
}

void cycles_find_live(cycle_table *table) {
    table->waiting = NO_ROW;
    for (uint32_t i = 0; i < table->length; i++) {
        int32_t count = object_count(table->rows[i].object);
        if ((table->shared ? -count : count) != table->rows[i].explained) {
            enliven(table, table->rows[i].object);
        }
        while (table->waiting != NO_ROW) {
            const cycle_row *row = &table->rows[table->waiting];
            table->waiting = row->next;
            visit_children(table, row->object, enliven);
        }
    }
}

/* Takes the content out of a reference that the caller holds. */
static void empty(rvm_heap *heap, rvm_ref *ref) {
    if (ref->full && ref->shape->num_object_fields) {
        uint64_t value = ref->value;
        ref->value = 0;
        ref->full = 0;
        object_release(heap, word_object(value));
    }
}

/* Every cycle goes through a reference, so emptying the dead ones frees them all. */
void cycles_free_dead(rvm_heap *heap, cycle_table *table) {
    uint32_t dead = 0;
    for (uint32_t i = 0; i < table->length; i++) {
        cycle_row row = table->rows[i];
        if (!row.live && row.object->kind == RVM_REF) {
            object_retain(row.object);
            table->rows[dead++].object = row.object;
        }
    }
    for (uint32_t i = 0; i < dead; i++) {
        empty(heap, (rvm_ref *)(void *)table->rows[i].object);
    }
    for (uint32_t i = 0; i < dead; i++) {
        object_release(heap, table->rows[i].object);
    }
}

void cycles_free_table(cycle_table *table) {
    free(table->rows);
    free(table->slots);
}

void heap_link_ref(rvm_heap *heap, rvm_ref *ref) {
    ref->previous = &heap->refs;
    ref->next = heap->refs.next;
    ref->next->previous = ref;
    heap->refs.next = ref;
    heap->num_refs++;
}

void heap_unlink_ref(rvm_heap *heap, rvm_ref *ref) {
    if (ref->previous) {
        ref->previous->next = ref->next;
        ref->next->previous = ref->previous;
        ref->previous = ref->next = NULL;
        heap->num_refs--;
    }
}

/* An empty table, in the memory of the last one of this heap. */
static cycle_table take_table(rvm_heap *heap) {
    cycle_table table = {.rows = heap->cycle_rows, .slots = heap->cycle_slots, .capacity = heap->room_cycles};
    if (table.slots) {
        memset(table.slots, 0xff, (size_t)table.capacity * 2 * sizeof *table.slots);
    }
    heap->cycle_rows = heap->cycle_slots = NULL;
    heap->room_cycles = 0;
    return table;
}

static void keep_table(rvm_heap *heap, cycle_table *table) {
    if (table->capacity > MOST_KEPT_ROWS) {
        cycles_free_table(table);
        return;
    }
    heap->cycle_rows = table->rows;
    heap->cycle_slots = table->slots;
    heap->room_cycles = table->capacity;
}

void heap_scan_cycles(rvm_heap *heap) {
    cycle_table table = take_table(heap);
    const uint32_t room = table.capacity;
    const uint64_t refs_before = heap->num_refs, used_before = heap_used_bytes(heap);
    for (rvm_ref *ref = heap->refs.next; ref != &heap->refs && !table.failed; ref = ref->next) {
        cycles_add(&table, &ref->head, 0);
    }
    if (cycles_follow(&table)) {
        cycles_find_live(&table);
        cycles_free_dead(heap, &table);
    }
    heap->system_calls += table.capacity != room;
    keep_table(heap, &table);
    /* The next search is due when about as much garbage can have gathered as is now in use: then searches cost no more
     * than making the objects did. How much hangs on a reference is known from this one. */
    const uint64_t used = heap_used_bytes(heap), freed = refs_before - heap->num_refs;
    const uint64_t each = freed ? (used_before - used) / freed + 1 : sizeof(rvm_ref);
    heap->scan_refs = heap->num_refs + (used + SPARE_BYTES) / each + 1;
    heap->scan_bytes = used * 2 + SPARE_BYTES;
    if (heap->scan_bytes < heap->held_bytes) {
        heap->scan_bytes = heap->held_bytes;
    }
}

void heap_begin_scans(rvm_heap *heap) {
    heap->scan_refs = FIRST_REFS;
    heap->scan_bytes = heap->held_bytes + SPARE_BYTES;
}

void heap_collect_cycles(rvm_heap *heap) {
    while (heap->refs.next != &heap->refs) {
        rvm_ref *ref = heap->refs.next;
        heap_unlink_ref(heap, ref);
        object_retain(&ref->head);
        empty(heap, ref);
        object_release(heap, &ref->head);
    }
}
