"""The native engine: compiles the bytecode of a whole executable to one image of machine code.

Same results, traps, stack traces and steps as the interpreter; which instructions are lowered in
place, and which by a call of their C body, makes no difference but speed.
"""

from relayvm.vm.jit.auto import follow_native as follow_native
from relayvm.vm.jit.engine import make_native as make_native
from relayvm.vm.jit.engine import make_profiled as make_profiled
from relayvm.vm.jit.engine import stored_code as stored_code
from relayvm.vm.jit.host import host_of as host_of
