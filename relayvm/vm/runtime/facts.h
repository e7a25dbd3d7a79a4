/* What the verifier knows of each register at one place of the code, as a tree of shared nodes: a
 * copy is a count, a change copies the few nodes on its path, and where two places know the same
 * they share nodes. So jumps cost what changed between them, whatever a function has of registers. */
#ifndef RVM_FACTS_H
#define RVM_FACTS_H

#include <stdint.h>

/* One 64-bit fact a slot. Words: 1 if set. Owned: 0 if empty, else the number of its filling.
 * Borrowed: 0 if invalid; ROOT_KEPT for what the caller or the constants keep; else the slot of the
 * owned root and the number of that root's filling: it is valid as long as that has not changed. */
typedef uint64_t rvm_fact;
#define ROOT_KEPT UINT64_MAX

enum { FACT_BITS = 4, FACT_FAN = 1 << FACT_BITS, FACT_MASK = FACT_FAN - 1 };

/* A leaf of facts, or an inner node over others; a missing node stands for facts that are all 0. */
typedef union rvm_fact_node rvm_fact_node;
union rvm_fact_node {
    struct {
        uint32_t count; /* of those that point here */
        uint32_t unused;
        union {
            rvm_fact facts[FACT_FAN];
            rvm_fact_node *nodes[FACT_FAN];
        } is;
    };
    rvm_fact_node *next; /* of those not in use */
};

/* Nodes of the trees of one function, and how high the trees are. */
typedef struct rvm_fact_pool {
    struct rvm_fact_block *blocks;
    rvm_fact_node *unused;
    uint64_t made; /* nodes taken since the start */
    uint64_t num_nodes, max_nodes;
    uint32_t levels; /* of nodes between the root and the facts, the root included */
    int is_out_of_memory;
} rvm_fact_pool;

void facts_open(rvm_fact_pool *pool, uint32_t slots, uint64_t max_nodes);
void facts_close(rvm_fact_pool *pool);

rvm_fact facts_get(const rvm_fact_pool *pool, const rvm_fact_node *root, uint32_t slot);
/* Change one fact of the tree that `root` alone points to; 0, or -1 if there are no more nodes. */
int facts_set(rvm_fact_pool *pool, rvm_fact_node **root, uint32_t slot, rvm_fact fact);
/* Returns a tree of its own with the same facts. */
rvm_fact_node *facts_copy(rvm_fact_node *root);
void facts_drop(rvm_fact_pool *pool, rvm_fact_node *root);
/* The first slot at or after `slot` where the two trees differ, or the number of slots that trees of
 * this height hold. Adds the nodes it looked at to `work`. */
uint32_t facts_next_difference(const rvm_fact_pool *pool, const rvm_fact_node *a,
                               const rvm_fact_node *b, uint32_t slot, uint64_t *work);

#endif
