/* The workers of this process. Whoever takes the pool shares a job out; who does not get it works alone. Knows nothing
 * of kernels. */
#ifndef RVM_POOL_H
#define RVM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#define POOL_MAX_THREADS 1024u

/* A job in parts. Part w is offered to worker w, part 0 is the caller's, who also takes parts that were not begun when
 * its own is done. So a worker that sleeps or waits for a core delays nobody. */
typedef struct pool_job {
    void (*run)(void *context, uint32_t part, bool is_caller);
    void (*wait)(void *context); /* on the caller's thread, at least each 20 ms while it waits for others */
    void *context;
    uint32_t parts;
    uint64_t gain_ns; /* what sharing out saves by estimate: sleeping workers are woken when it adds up to the cost */
} pool_job;

/* Before a job, which ends with `pool_end`. True: this thread has the pool, with `threads` - 1 workers or those that the
 * system grants. False: it works alone, as another has the pool, callers take all `cores`, or there is no worker. */
bool pool_begin(uint32_t threads, uint32_t cores);
/* Runs the parts of a job; returns when all are done. By the thread that has the pool. */
void pool_run(const pool_job *job);
void pool_end(bool shared);

#endif
