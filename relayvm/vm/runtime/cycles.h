/* Trial deletion: a table of objects that may be held by cycles alone. */
#ifndef RVM_CYCLES_H
#define RVM_CYCLES_H

#include "heap.h"
#include "program.h"

/* One object that a reference reaches and from which a reference can be reached. */
typedef struct cycle_row {
    rvm_object *object;
    int32_t explained; /* counts held by objects of the table */
    uint32_t next;     /* of the rows that are live but whose children are not yet */
    bool live;
} cycle_row;

/* Rows in the order in which they are found, and their numbers by the address of the object. */
typedef struct cycle_table {
    cycle_row *rows;
    uint32_t *slots;
    uint32_t length, capacity; /* slots: twice as many, a power of two */
    uint32_t waiting;          /* first of the live rows to be followed */
    uint32_t most;             /* rows of a shared table; with more it fails */
    bool shared;               /* of shared objects, not of a machine's own */
    bool failed;
} cycle_table;

/* True if the object can be a part of a cycle of shared objects, or of a machine's own. */
bool cycles_may_pass(const rvm_object *object, bool shared);
/* Begins a search at an object, of whose counts so many are known not to keep it. */
void cycles_add(cycle_table *table, rvm_object *object, int32_t explained);
/* Adds all that is reached; false if memory is out or the table is full. */
bool cycles_follow(cycle_table *table);
void cycles_find_live(cycle_table *table);
/* Every cycle goes through a reference, so emptying the dead ones frees them all. */
void cycles_free_dead(rvm_heap *heap, cycle_table *table);
void cycles_free_table(cycle_table *table);

/* shared_cycles.c. A machine whose program has references says when it runs: shared objects are searched only while
 * nothing changes them. */
void shared_cycles_enter(void);
void shared_cycles_leave(void);
/* Consumes one count of an object that the host or a machine held, and frees cycles that only it kept. `running` is 1
 * if the caller is a machine that runs, else 0. `heap` takes the memory; requires the host lock. */
void shared_cycles_drop(rvm_heap *heap, rvm_object *object, rvm_program *program, int running);
/* Searches what could not be searched when it was dropped: once it is much, after some runs, or when memory is trimmed. */
typedef enum { SHARED_CYCLES_DROP, SHARED_CYCLES_RUN, SHARED_CYCLES_TRIM } shared_cycles_event;
void shared_cycles_settle(shared_cycles_event event);
/* So many objects have been shared: as many may be searched. */
void shared_cycles_made(uint64_t objects);

#endif
