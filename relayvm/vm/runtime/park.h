/* Waiting for a 32-bit word to change, and waking who waits: a futex on Linux, a condition variable elsewhere. */
#ifndef RVM_PARK_H
#define RVM_PARK_H

#include <stdatomic.h>
#include <stdint.h>

/* Returns once the word is not `value`, after `limit_ns` (negative: no limit), or for no reason. */
void park_wait(_Atomic uint32_t *word, uint32_t value, int64_t limit_ns);
/* Wakes who waits for the word, which has been changed before. */
void park_wake(_Atomic uint32_t *word);
/* After a fork: nobody waits in the child. */
void park_forget(void);

#endif
