/* Trees of shared nodes that hold the verifier's facts. */
#include "facts.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_IN_BLOCK = 128 };

typedef struct rvm_fact_block {
    struct rvm_fact_block *next;
    rvm_fact_node nodes[NODES_IN_BLOCK];
} rvm_fact_block;

void facts_open(rvm_fact_pool *pool, uint32_t slots, uint64_t max_nodes) {
    *pool = (rvm_fact_pool){.max_nodes = max_nodes, .levels = 1};
    while (slots >> (pool->levels * FACT_BITS) != 0) pool->levels++;
}

void facts_close(rvm_fact_pool *pool) {
    while (pool->blocks != NULL) {
        rvm_fact_block *next = pool->blocks->next;
        free(pool->blocks);
        pool->blocks = next;
    }
    pool->unused = NULL;
}

/* --- nodes ---------------------------------------------------------------------------------------- */

static int add_block(rvm_fact_pool *pool) {
    if (pool->num_nodes + NODES_IN_BLOCK > pool->max_nodes) return -1;
    rvm_fact_block *block = malloc(sizeof *block);
    if (block == NULL) {
        pool->is_out_of_memory = 1;
        return -1;
    }
    block->next = pool->blocks;
    pool->blocks = block;
    pool->num_nodes += NODES_IN_BLOCK;
    for (uint32_t i = 0; i < NODES_IN_BLOCK; i++) {
        block->nodes[i].next = pool->unused;
        pool->unused = &block->nodes[i];
    }
    return 0;
}

/* Returns a node that one points to, or NULL. */
static rvm_fact_node *new_node(rvm_fact_pool *pool) {
    if (pool->unused == NULL && add_block(pool)) return NULL;
    rvm_fact_node *node = pool->unused;
    pool->unused = node->next;
    pool->made++;
    memset(node, 0, sizeof *node);
    node->count = 1;
    return node;
}

rvm_fact_node *facts_copy(rvm_fact_node *root) {
    if (root != NULL) root->count++;
    return root;
}

static void drop_at(rvm_fact_pool *pool, rvm_fact_node *node, uint32_t levels) {
    if (node == NULL || --node->count != 0) return;
    for (uint32_t i = 0; levels > 1 && i < FACT_FAN; i++)
        drop_at(pool, node->is.nodes[i], levels - 1);
    node->next = pool->unused;
    pool->unused = node;
}

void facts_drop(rvm_fact_pool *pool, rvm_fact_node *root) { drop_at(pool, root, pool->levels); }

/* Make `*place` point to a node of its own; 0 or -1. */
static int make_own(rvm_fact_pool *pool, rvm_fact_node **place, uint32_t levels) {
    rvm_fact_node *shared = *place;
    if (shared != NULL && shared->count == 1) return 0;
    rvm_fact_node *own = new_node(pool);
    if (own == NULL) return -1;
    *place = own;
    if (shared == NULL) return 0;
    own->is = shared->is;
    for (uint32_t i = 0; levels > 1 && i < FACT_FAN; i++) facts_copy(own->is.nodes[i]);
    shared->count--;
    return 0;
}

/* --- facts ---------------------------------------------------------------------------------------- */

static uint32_t index_at(uint32_t slot, uint32_t levels) {
    return slot >> ((levels - 1) * FACT_BITS) & FACT_MASK;
}

rvm_fact facts_get(const rvm_fact_pool *pool, const rvm_fact_node *root, uint32_t slot) {
    const rvm_fact_node *node = root;
    for (uint32_t levels = pool->levels; node != NULL && levels > 1; levels--)
        node = node->is.nodes[index_at(slot, levels)];
    return node == NULL ? 0 : node->is.facts[slot & FACT_MASK];
}

int facts_set(rvm_fact_pool *pool, rvm_fact_node **root, uint32_t slot, rvm_fact fact) {
    if (facts_get(pool, *root, slot) == fact) return 0;
    rvm_fact_node **place = root;
    for (uint32_t levels = pool->levels;; levels--) {
        if (make_own(pool, place, levels)) return -1;
        if (levels == 1) break;
        place = &(*place)->is.nodes[index_at(slot, levels)];
    }
    (*place)->is.facts[slot & FACT_MASK] = fact;
    return 0;
}

/* --- differences ------------------------------------------------------------------------------------ */

static const rvm_fact_node *child(const rvm_fact_node *node, uint32_t i) {
    return node == NULL ? NULL : node->is.nodes[i];
}

static rvm_fact fact_in(const rvm_fact_node *leaf, uint32_t i) {
    return leaf == NULL ? 0 : leaf->is.facts[i];
}

/* The first difference at or after `from`, which counts from the first slot below these nodes. */
static uint32_t difference_at(const rvm_fact_node *a, const rvm_fact_node *b, uint32_t levels,
                              uint32_t from, uint64_t *work) {
    const uint32_t end = UINT32_C(1) << (levels * FACT_BITS);
    if (a == b) return end;
    ++*work;
    if (levels == 1) {
        uint32_t i = from;
        while (i < FACT_FAN && fact_in(a, i) == fact_in(b, i)) i++;
        return i;
    }
    const uint32_t below = (levels - 1) * FACT_BITS, width = UINT32_C(1) << below;
    for (uint32_t i = from >> below; i < FACT_FAN; i++) {
        const uint32_t start = i == from >> below ? from & (width - 1) : 0;
        const uint32_t found = difference_at(child(a, i), child(b, i), levels - 1, start, work);
        if (found < width) return (i << below) + found;
    }
    return end;
}

uint32_t facts_next_difference(const rvm_fact_pool *pool, const rvm_fact_node *a,
                               const rvm_fact_node *b, uint32_t slot, uint64_t *work) {
    const uint32_t end = UINT32_C(1) << (pool->levels * FACT_BITS);
    return slot >= end ? end : difference_at(a, b, pool->levels, slot, work);
}
