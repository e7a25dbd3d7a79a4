"""What a measured call tells: kernels, functions, instructions, allocations, and when."""

from relayvm.vm.profile.model import (
    AllocationProfile as AllocationProfile,
)
from relayvm.vm.profile.model import (
    CallNode as CallNode,
)
from relayvm.vm.profile.model import (
    Event as Event,
)
from relayvm.vm.profile.model import (
    FunctionProfile as FunctionProfile,
)
from relayvm.vm.profile.model import (
    InstructionProfile as InstructionProfile,
)
from relayvm.vm.profile.model import (
    KernelProfile as KernelProfile,
)
from relayvm.vm.profile.model import (
    Peaks as Peaks,
)
from relayvm.vm.profile.model import (
    Profile as Profile,
)
from relayvm.vm.profile.reading import MOST_EVENTS as MOST_EVENTS
from relayvm.vm.profile.reading import Profiler as Profiler
