/* Results that the host keeps without a copy: their memory comes back to the machine that made them, if that is still
 * there, so that the next call of the same sizes asks the system for nothing. */
#ifndef RVM_LENDING_H
#define RVM_LENDING_H

#include "machine.h"

/* Where tensors wait that come back: from any thread, at any time. It outlives its machine while there are some. */
typedef struct rvm_lender {
    _Atomic uint64_t holders;
    _Atomic uint32_t num_waiting;
    bool is_closed;      /* this and the list: under the lock of the host heap */
    rvm_tensor *waiting; /* linked through `data` */
} rvm_lender;

/* Null when memory is out. */
rvm_lender *lender_new(void);
/* The machine goes: what comes back from now on is freed at once. */
void lender_close(rvm_machine *machine);

/* Gives the host a tensor that only the caller holds, from a machine that is running. False: its memory is also
 * somebody else's, or the executable's, or the caller's own; then nothing has happened. */
bool lending_give(rvm_machine *machine, rvm_tensor *tensor);
/* Ends it; consumes the tensor. */
void lending_take_back(rvm_lender *lender, rvm_tensor *tensor);
/* Puts what waits into the pools of a machine that is the caller's. */
void lending_collect_waiting(rvm_machine *machine);

static inline void lending_collect(rvm_machine *machine) {
    if (atomic_load_explicit(&machine->lender->num_waiting, memory_order_relaxed)) {
        lending_collect_waiting(machine);
    }
}

#endif
