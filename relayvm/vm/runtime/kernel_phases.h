/* How a kernel's phases run once its operands are ready; shared by the files that call kernels. */
#ifndef RVM_KERNEL_PHASES_H
#define RVM_KERNEL_PHASES_H

#include "machine.h"

#define RVM_BYTES_PER_WORK 16 /* at most, that an operation touches */
/* Less work than this is no matter for several threads, whatever bytes it touches. */
#ifdef RVM_STRESS
#define RVM_SHARED_WORK 1
#else
#define RVM_SHARED_WORK 25000
#endif

/* Runs all phases on `kernel_args`, `kernel_dims` and scratch. `units` are scalar operations, or bytes touched where
 * these are more. 0, or a trap code. */
int32_t kernel_run_phases(rvm_machine *m, const rvm_kernel *kernel, int64_t work, uint64_t units);
/* Writes `worker_args`: a row of arguments for each part but the first, with private memory of its own. False where
 * memory is short: then the caller works alone. */
bool kernel_worker_args(rvm_machine *m, const rvm_kernel *kernel, uint32_t parts);
/* Says why a phase that returned `status` stopped, with the `values` it left; returns the trap. */
int32_t kernel_trap(rvm_machine *m, const rvm_kernel *kernel, int32_t status, const int64_t *values);
int32_t kernel_dim_trap(rvm_machine *m, const rvm_kernel *kernel, int32_t trap);

static inline bool kernel_wants(const rvm_dim *size) {
    return size->kind != RVM_DIM_CONSTANT || size->value;
}

#endif
