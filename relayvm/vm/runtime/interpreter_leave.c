/* The interpreter once more, for runs that go on in compiled code: frames that wait are interpreted to their end, and
 * whatever function they enter is compiled. */
#define RVM_LEAVING
#include "interpreter.c"
