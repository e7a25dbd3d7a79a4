/* The tree of calls of a measured run and its times; the host reads them when the run is over.
 *
 * Each entry of a function, return and kernel ends an interval, which belongs to one row of the tree. Intervals are
 * timed in bursts: after one whose intervals were short, many are only counted, a random number of them, so that no loop
 * keeps step. The host shares the time in between out by count and by mean time of each row. */
#include "profile.h"

#include <stdlib.h>
#include <string.h>

#include "fuse.h"
#include "machine.h"

#define MOST_NODES 65536u
#define STACK_ROOM 64u    /* at first: what is not cleared leaves the caches to the kernels that are timed */
#define MOST_STACK 65536u /* calls below share the last place */
#define BURST 64u
#define BURST_NS 32000    /* a shorter burst is followed by intervals that are not timed */
#define SLOW_NS 1000      /* kernels that take longer are always timed */
#define FIRST_CALLS 8u    /* and so are the first calls of each */
#define CALIBRATION_NS 20000
#define SAMPLE_GAP 512u   /* instructions between two that are timed; fewer at first, so that short runs have some */
#define FIRST_SAMPLE_GAP 8u
#define NO_SAMPLE UINT32_MAX

typedef struct rvm_profile_edge {
    uint32_t code, node, next;
} rvm_profile_edge;

static void calibrate(rvm_profile *p) {
    const int64_t begin = machine_clock_ns();
    const uint64_t first = profile_ticks();
    int64_t now;
    do {
        now = machine_clock_ns();
    } while (now - begin < CALIBRATION_NS);
    const double ticks_per_ns = (double)(profile_ticks() - first) / (double)(now - begin);
    p->burst_ticks = (uint64_t)(ticks_per_ns * BURST_NS);
    p->slow_ticks = (uint64_t)(ticks_per_ns * SLOW_NS);
}

static uint32_t next_random(rvm_profile *p, uint32_t below) {
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((p->random >> 33) % below);
}

rvm_profile *rvm_profile_new(const rvm_program *program, uint64_t max_events) {
    rvm_profile *p = calloc(1, sizeof *p);
    if (!p) {
        return NULL;
    }
    p->num_functions = program->num_functions;
    p->code = program->code_units;
    p->num_hits = program->sections[RVM_SECTION_CODE].size / sizeof(uint16_t) + 1;
    p->max_events = max_events;
    p->kernels = calloc(program->num_kernels + 1, sizeof *p->kernels);
    p->samples = calloc(RVM_NUM_OPCODES, sizeof *p->samples);
    p->hits = calloc(p->num_hits, sizeof *p->hits);
    p->room_nodes = p->room_edges = 64;
    p->nodes = calloc(p->room_nodes, sizeof *p->nodes);
    p->edges = calloc(p->room_edges, sizeof *p->edges);
    p->room_stack = STACK_ROOM;
    p->stack = calloc(p->room_stack, sizeof *p->stack);
    p->events = max_events ? calloc(max_events, sizeof *p->events) : NULL;
    if (!p->kernels || !p->samples || !p->hits || !p->nodes || !p->edges || !p->stack || (max_events && !p->events)) {
        rvm_profile_free(p);
        return NULL;
    }
    p->nodes[0].code = RVM_PROFILE_END;
    p->num_nodes = p->num_edges = 1; /* edge 0 is none */
    p->random = 1;
    p->sampled = NO_SAMPLE;
    calibrate(p);
    return p;
}

void rvm_profile_free(rvm_profile *p) {
    if (p) {
        free(p->kernels);
        free(p->samples);
        free(p->hits);
        free(p->nodes);
        free(p->edges);
        free(p->stack);
        free(p->events);
        free(p);
    }
}

uint64_t rvm_profile_first_unit(const rvm_program *program, uint32_t function) {
    return (uint64_t)(program->functions[function].code - program->code_units);
}

/* --- the tree ---------------------------------------------------------------------------------------- */

static uint32_t new_node(rvm_profile *p, uint32_t parent, uint32_t code) {
    if (p->num_nodes == p->room_nodes) {
        rvm_profile_node *nodes =
            p->room_nodes < MOST_NODES ? realloc(p->nodes, 2 * p->room_nodes * sizeof *nodes) : NULL;
        if (!nodes) {
            return parent;
        }
        memset(nodes + p->room_nodes, 0, p->room_nodes * sizeof *nodes);
        p->nodes = nodes;
        p->room_nodes *= 2;
    }
    const uint32_t node = (uint32_t)p->num_nodes++;
    p->nodes[node].code = code;
    p->nodes[node].parent = parent;
    return node;
}

static uint32_t among_callers(const rvm_profile *p, uint32_t node, uint32_t code) {
    for (; node; node = p->nodes[node].parent) {
        if (p->nodes[node].code == code) {
            return node;
        }
    }
    return 0;
}

static uint32_t new_edge(rvm_profile *p, uint32_t from, uint32_t code) {
    uint32_t node = among_callers(p, from, code);
    node = node ? node : new_node(p, from, code);
    if (p->num_edges == p->room_edges) {
        rvm_profile_edge *edges = realloc(p->edges, 2 * p->room_edges * sizeof *edges);
        if (!edges) {
            return node;
        }
        p->edges = edges;
        p->room_edges *= 2;
    }
    const uint32_t edge = (uint32_t)p->num_edges++;
    p->edges[edge] = (rvm_profile_edge){code, node, p->nodes[from].edges};
    p->nodes[from].edges = edge;
    return node;
}

static uint32_t callee(rvm_profile *p, uint32_t from, uint32_t code) {
    for (uint32_t e = p->nodes[from].edges; e; e = p->edges[e].next) {
        if (p->edges[e].code == code) {
            return p->edges[e].node;
        }
    }
    return new_edge(p, from, code);
}

/* --- time -------------------------------------------------------------------------------------------- */

static void note(rvm_profile *p, uint32_t code) {
    if (p->max_events) {
        if (p->num_events < p->max_events) {
            p->events[p->num_events++] = (rvm_profile_event){p->last, code, 0};
        } else {
            p->lost_events++;
        }
    }
}

static void begin_burst(rvm_profile *p, uint64_t now) {
    p->last = p->burst_begin = now;
    p->left_timed = BURST;
}

/* The interval that `current` was in is over. */
static void end_interval(rvm_profile *p) {
    rvm_profile_node *node = &p->nodes[p->current];
    node->intervals++;
    if (!p->left_timed) {
        if (--p->left_skipped == 0) {
            const uint64_t now = profile_ticks();
            p->untimed_ticks += now - p->last;
            begin_burst(p, now);
        }
        return;
    }
    const uint64_t now = profile_ticks();
    node->timed++;
    node->ticks += now - p->last;
    p->last = now;
    if (--p->left_timed == 0) {
        if (p->max_events || now - p->burst_begin >= p->burst_ticks) {
            begin_burst(p, now);
        } else {
            p->left_skipped = 8 * BURST + next_random(p, 16 * BURST);
        }
    }
}

static uint64_t place(const rvm_profile *p, uint64_t depth) {
    return depth < p->room_stack ? depth : p->room_stack - 1;
}

/* Makes a place for that many open calls; where memory is out they share the last one. */
static void need_place(rvm_profile *p, uint64_t depth) {
    while (depth >= p->room_stack && p->room_stack < MOST_STACK) {
        uint32_t *stack = realloc(p->stack, 2 * p->room_stack * sizeof *stack);
        if (!stack) {
            return;
        }
        memset(stack + p->room_stack, 0, p->room_stack * sizeof *stack);
        p->stack = stack;
        p->room_stack *= 2;
    }
}

/* What the profile itself takes is no part of the instruction that is timed. */
static uint64_t begin_aside(const rvm_profile *p) {
    return p->sampled != NO_SAMPLE ? profile_ticks() : 0;
}

static void end_aside(rvm_profile *p, uint64_t begin) {
    p->outside_ticks += begin ? profile_ticks() - begin : 0;
}

/* Leaves calls until that many are open. */
static void close_calls(rvm_profile *p, uint64_t depth) {
    for (; p->depth > depth; p->depth--) {
        note(p, RVM_PROFILE_END);
    }
}

void profile_enter(rvm_profile *p, uint32_t function, uint64_t depth) {
    const uint64_t aside = begin_aside(p);
    end_interval(p);
    close_calls(p, depth - 1);
    need_place(p, depth);
    const uint32_t node = callee(p, p->stack[place(p, depth - 1)], function);
    p->depth = depth;
    p->stack[place(p, depth)] = p->current = node;
    p->nodes[node].calls++;
    note(p, function);
    end_aside(p, aside);
}

void profile_repeat(rvm_profile *p) {
    p->nodes[p->current].calls++;
}

void profile_back(rvm_profile *p, uint64_t depth) {
    const uint64_t aside = begin_aside(p);
    end_interval(p);
    close_calls(p, depth);
    p->current = p->stack[place(p, depth)];
    end_aside(p, aside);
}

static bool is_slow(const rvm_profile *p, const rvm_profile_node *node) {
    return node->timed < FIRST_CALLS || node->ticks / node->timed >= p->slow_ticks;
}

uint64_t profile_kernel_begin(rvm_profile *p, uint32_t kernel) {
    end_interval(p);
    const uint32_t code = p->num_functions + kernel;
    note(p, code);
    const uint32_t node = callee(p, p->current, code);
    const bool is_timed = p->left_timed || p->sampled != NO_SAMPLE || is_slow(p, &p->nodes[node]);
    /* After all of the above, which is no work of the kernel's. */
    return is_timed ? profile_ticks() : 0;
}

void profile_kernel_end(rvm_profile *p, uint32_t kernel, uint64_t begin) {
    const uint64_t ticks = begin ? profile_ticks() - begin : 0;
    rvm_profile_node *node = &p->nodes[callee(p, p->current, p->num_functions + kernel)];
    node->calls++;
    node->intervals++;
    if (begin) {
        node->timed++;
        node->ticks += ticks;
        p->outside_ticks += ticks;
        /* Where nothing else is timed, this is taken out of the time that is not. */
        p->last += ticks;
    }
    note(p, RVM_PROFILE_END);
}

void profile_sample(rvm_profile *p, uint16_t opcode) {
    if (p->sampled != NO_SAMPLE) {
        const uint64_t outside = p->outside_ticks - p->sample_outside_ticks;
        const uint64_t ticks = profile_ticks() - p->sample_begin;
        p->samples[p->sampled].count++;
        p->samples[p->sampled].ticks += ticks > outside ? ticks - outside : 0;
        p->sampled = NO_SAMPLE;
        p->left_instructions = p->sample_gap / 2 + 1 + next_random(p, p->sample_gap);
        p->sample_gap = p->sample_gap < SAMPLE_GAP ? 2 * p->sample_gap : SAMPLE_GAP;
        return;
    }
    p->sampled = plain_opcode(opcode);
    p->left_instructions = 1;
    p->sample_outside_ticks = p->outside_ticks;
    p->sample_begin = profile_ticks();
}

/* --- a run ------------------------------------------------------------------------------------------- */

void profile_begin(rvm_machine *m, rvm_profile *p) {
    m->profile = p;
    p->held_before_bytes = m->heap.held_bytes;
    p->peak_before_bytes = m->heap.peak_bytes;
    m->heap.peak_bytes = m->heap.held_bytes;
    p->system_calls -= m->heap.system_calls;
    p->reused_cells -= m->heap.reused_cells;
    p->steps -= m->total_steps;
    p->depth = p->current = 0;
    p->stack[0] = 0;
    p->nodes[0].calls++;
    p->sample_gap = p->sample_gap ? p->sample_gap : FIRST_SAMPLE_GAP;
    p->left_instructions = 1 + next_random(p, p->sample_gap);
    p->time_ns -= (uint64_t)machine_clock_ns();
    begin_burst(p, profile_ticks());
    p->first_ticks = p->ticks ? p->first_ticks : p->last;
    p->ticks -= p->last;
}

void profile_end(rvm_machine *m) {
    rvm_profile *p = m->profile;
    m->profile = NULL;
    const uint64_t now = profile_ticks();
    rvm_profile_node *node = &p->nodes[p->current];
    node->intervals++;
    if (p->left_timed) {
        node->timed++;
        node->ticks += now - p->last;
    } else {
        p->untimed_ticks += now - p->last;
    }
    p->sampled = NO_SAMPLE;
    p->ticks += now;
    p->time_ns += (uint64_t)machine_clock_ns();
    p->steps += m->total_steps;
    p->system_calls += m->heap.system_calls;
    p->reused_cells += m->heap.reused_cells;
    p->held_after_bytes = m->heap.held_bytes;
    p->peak_bytes = m->heap.peak_bytes > p->peak_bytes ? m->heap.peak_bytes : p->peak_bytes;
    m->heap.peak_bytes = m->heap.peak_bytes > p->peak_before_bytes ? m->heap.peak_bytes : p->peak_before_bytes;
}
