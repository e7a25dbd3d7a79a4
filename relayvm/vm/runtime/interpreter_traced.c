/* The interpreter once more, with a call to the host before each instruction. A machine that is not traced never comes
 * here, so that tracing costs nothing while it is off. */
#define RVM_TRACED
#define interpreter_run interpreter_run_traced
#include "interpreter.c"
