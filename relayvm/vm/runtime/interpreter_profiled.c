/* The interpreter once more, which counts each instruction and tells the profile of each call. A machine that is not
 * measured never comes here, so that profiling costs nothing while it is off. */
#define RVM_PROFILED
#define interpreter_run interpreter_run_profiled
#include "interpreter.c"
