/* Lending results to the host, and taking their memory back. */
#include "lending.h"

#include "tensor.h"

#include <stdlib.h>

#define MOST_WAITING 4u /* more than a program returns again and again, its machine has no use for */

rvm_lender *lender_new(void) {
    rvm_lender *lender = calloc(1, sizeof *lender);
    if (lender) {
        atomic_init(&lender->holders, 1);
    }
    return lender;
}

static void let_go(rvm_lender *lender) {
    if (atomic_fetch_sub(&lender->holders, 1) == 1) {
        free(lender);
    }
}

void lender_close(rvm_machine *m) {
    if (m->lender) {
        heap_host_lock();
        m->lender->is_closed = true;
        heap_host_unlock();
        lending_collect_waiting(m);
        let_go(m->lender);
    }
}

bool lending_give(rvm_machine *m, rvm_tensor *tensor) {
    if (!tensor_is_unique(tensor) || tensor_bytes(tensor) != tensor->storage->bytes ||
        !heap_share(&m->heap, &tensor->head)) {
        return false;
    }
    atomic_fetch_add(&m->lender->holders, 1);
    return true;
}

void lending_take_back(rvm_lender *lender, rvm_tensor *tensor) {
    rvm_heap *host = heap_host_lock();
    if (lender->is_closed || lender->num_waiting == MOST_WAITING) {
        object_release(host, &tensor->head);
    } else {
        tensor->data = (uint8_t *)lender->waiting;
        lender->waiting = tensor;
        lender->num_waiting++;
    }
    heap_host_unlock();
    let_go(lender);
}

void lending_collect_waiting(rvm_machine *m) {
    heap_host_lock();
    rvm_tensor *waiting = m->lender->waiting;
    m->lender->waiting = NULL;
    m->lender->num_waiting = 0;
    heap_host_unlock();
    while (waiting) {
        rvm_tensor *tensor = waiting;
        waiting = (rvm_tensor *)(void *)tensor->data;
        object_release(&m->heap, &tensor->head);
    }
}
