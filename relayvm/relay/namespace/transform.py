"""Passes by TVM's names: what a pass is, in which context it runs, sequences, and the user's own
passes.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.compiler.pipeline import alters_library
from relayvm.ir.expr import Expr, Function
from relayvm.relay.lazy import absent
from relayvm.relay.module import IRModule, unwrap, wrap

MAX_OPT_LEVEL = 4

# What a configuration may hold: TVM's keys that mean something here, each with its type.
CONFIGS: dict[str, type] = {
    "relay.FuseOps.max_depth": int,
    "relay.FuseOps.link_params": bool,
    "relay.ToMixedPrecision.keep_orig_output_dtype": bool,
    "relay.ToMixedPrecision.target_bits": int,
    "relay.backend.use_auto_scheduler": bool,
    "relay.backend.use_meta_schedule": bool,
    "relay.backend.disable_memory_plan": bool,
    "relay.collect_const_loc_expr": bool,
    "relay.frontend.fill_span": bool,
    "relay.remove_standalone_reshapes.enable": bool,
    "relay.backend.tir_converter": str,
    "relay.fallback_device_type": int,
    "tir.disable_vectorize": bool,
}


class PassInfo:
    """What is known of a pass: the level from which it runs, its name, passes it needs first."""

    def __init__(
        self,
        opt_level: int,
        name: str,
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        self.opt_level = opt_level
        self.name = name
        self.required = list(required or ())
        self.traceable = traceable

    def __repr__(self) -> str:
        return f"PassInfo(opt_level={self.opt_level}, name={self.name!r})"


class PassContext:
    """How passes run inside of a `with` block: level, passes asked for and forbidden, instruments,
    configuration.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] | None = None,
        disabled_pass: Iterable[str] | None = None,
        instruments: Iterable[Any] | None = None,
        config: Mapping[str, Any] | None = None,
        trace: Any = None,
        trace_stack: Any = None,
        make_traceable: Any = None,
        num_evals: int = 0,
        tuning_api_database: Any = None,
    ) -> None:
        if any((trace, trace_stack, make_traceable, num_evals, tuning_api_database)):
            raise error("bad-option", "a context holds no traces: passes are not tuned here")
        if type(opt_level) is not int or not 0 <= opt_level <= MAX_OPT_LEVEL:
            message = f"`opt_level` is {opt_level!r}; it must be from 0 to {MAX_OPT_LEVEL}"
            raise error("bad-option", message)
        self.opt_level = opt_level
        self.required_pass = _names(required_pass, "required_pass")
        self.disabled_pass = _names(disabled_pass, "disabled_pass")
        self.instruments = list(instruments or ())
        self.config = _checked_config(config or {})
        self._outer: list[PassContext] = []

    def __enter__(self) -> PassContext:
        self._outer.append(_current.get())
        _current.set(self)
        self._enter_instruments()
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        _current.set(self._outer.pop())
        self._exit_instruments()

    def _enter_instruments(self) -> None:
        entered: list[Any] = []
        try:
            for instrument in self.instruments:
                instrument.enter_pass_ctx()
                entered.append(instrument)
        except BaseException:
            # None of them sees passes that not all of them can see, as in TVM.
            self.instruments = []
            for instrument in entered:
                instrument.exit_pass_ctx()
            raise

    def _exit_instruments(self) -> None:
        try:
            for instrument in self.instruments:
                instrument.exit_pass_ctx()
        except BaseException:
            self.instruments = []
            raise

    def override_instruments(self, instruments: Iterable[Any] | None) -> None:
        """Leave the instruments that there are and enter others."""
        self._exit_instruments()
        self.instruments = list(instruments or ())
        self._enter_instruments()

    def pass_enabled(self, info: PassInfo) -> bool:
        """Tell whether a pass of a sequence runs here."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or self.opt_level >= info.opt_level

    @staticmethod
    def current() -> PassContext:
        """Return the context of the innermost `with` block, or the default one."""
        return _current.get()

    @staticmethod
    def list_configs() -> dict[str, dict[str, str]]:
        """Return the keys of a configuration, each with the type of its value."""
        return {key: {"type": kind.__name__} for key, kind in CONFIGS.items()}


def _names(names: Iterable[str] | None, what: str) -> list[str]:
    if names is not None and (isinstance(names, str) or not isinstance(names, Iterable)):
        raise TypeError(f"{what} is expected to be the type of list/tuple/set.")
    return list(names or ())


def _checked_config(config: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in config.items():
        if key not in CONFIGS:
            known = ", ".join(f"`{k}`" for k in CONFIGS)
            raise error("bad-option", f"there is no configuration `{key}`; known are {known}")
        if not isinstance(value, CONFIGS[key]):
            kind = CONFIGS[key].__name__
            raise error("bad-option", f"`{key}` is of type {kind}, not `{value!r}`")
    return dict(config)


_DEFAULT = PassContext()
_current: ContextVar[PassContext] = ContextVar("pass_context", default=_DEFAULT)


class Pass:
    """Takes a module and returns another."""

    def __init__(self, info: PassInfo) -> None:
        self.info = info

    def __call__(self, mod: IRModule) -> IRModule:
        """Return the module after the pass; the one given stays as it is."""
        context = PassContext.current()
        mod = mod if isinstance(mod, IRModule) else wrap(unwrap(mod))
        instruments = list(context.instruments)
        wanted = self.info.name in context.required_pass
        if not wanted and not all(i.should_run(mod, self.info) for i in instruments):
            return mod
        for instrument in instruments:
            instrument.run_before_pass(mod, self.info)
        result = self.run(mod, context)
        for instrument in instruments:
            instrument.run_after_pass(result, self.info)
        return result

    def run(self, mod: IRModule, context: PassContext) -> IRModule:
        """Return the module after the pass, whatever the instruments say."""
        raise TypeError(f"`{self.info.name}` does nothing of its own")

    def __repr__(self) -> str:
        return f"The meta data of the pass - pass name: {self.info.name}, opt_level: " + str(
            self.info.opt_level
        )


class ModulePass(Pass):
    """A pass over whole modules; made by `module_pass`."""

    def __init__(self, pass_func: Callable[..., IRModule], pass_info: PassInfo) -> None:
        super().__init__(pass_info)
        self.pass_func = pass_func

    def run(self, mod: IRModule, context: PassContext) -> IRModule:
        """Return what the function of the pass gives."""
        result = self.pass_func(mod.clone(), context)
        if not isinstance(result, IRModule):
            kind = type(result).__name__
            raise error("wrong-argument", f"pass `{self.info.name}` returned a `{kind}`, no module")
        return result


class Sequential(Pass):
    """Passes one after the other, those that the context allows."""

    def __init__(
        self,
        passes: Sequence[Pass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        if passes is not None and not isinstance(passes, (list, tuple)):
            raise TypeError("passes must be a list of Pass objects.")
        if required is not None and not isinstance(required, (list, tuple)):
            raise TypeError("Required is expected to be the type of list/tuple.")
        for step in passes or ():
            if not isinstance(step, Pass):
                uncalled = isinstance(step, type) or inspect.isroutine(step)
                raise error(
                    "wrong-argument",
                    f"`passes` holds passes, not `{step!r:.60}` of class `{type(step).__name__}`",
                    help="call it to make the pass" if uncalled else "",
                )
        super().__init__(PassInfo(opt_level, name, required, traceable))
        self.passes = list(passes or ())

    def run(self, mod: IRModule, context: PassContext) -> IRModule:
        """Return the module after the passes that are enabled, each after those that it names as
        required.
        """
        for step in self.passes:
            if not context.pass_enabled(step.info):
                continue
            for name in step.info.required:
                mod = _named(name)(mod)
            mod = step(mod)
        return mod


def _named(name: str) -> Pass:
    """Return a pass of `relay.transform` by its name."""
    from relayvm.relay import transform

    made = getattr(transform, name, None)
    if made is None:
        raise error("unknown-pass", f"there is no pass `{name}`")
    result = made()
    assert isinstance(result, Pass)
    return result


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:
    """Return a pass made of a function `(module, context) -> module`, or of a class with a method
    `transform_module`; without either, a decorator.
    """
    if opt_level is None:
        raise ValueError("Please provide opt_level for the module pass.")
    return decorated(
        pass_func,
        PassInfo(opt_level, name or "", required, traceable),
        ModulePass,
        "transform_module",
    )


def decorated(pass_func: Any, info: PassInfo, base: type[Pass], method: str) -> Any:
    """Return a pass of class `base` over a function or a class with this method, or a decorator."""

    def create(target: Any) -> Any:
        own = PassInfo(info.opt_level, info.name or target.__name__, info.required, info.traceable)
        if inspect.isclass(target):
            return _pass_class(target, own, base, method)
        if not callable(target):
            raise TypeError("pass_func must be a callable for a pass")
        return base(target, own)  # type: ignore[call-arg]

    return create if pass_func is None else create(pass_func)


def _pass_class(target: type, info: PassInfo, base: type[Pass], method: str) -> type[Pass]:
    """Return a class whose objects are passes over objects of the user's class."""

    class Made(base):  # type: ignore[valid-type, misc]
        def __init__(self, *args: Any, **named: Any) -> None:
            self._inst = target(*args, **named)
            super().__init__(getattr(self._inst, method), info)

        def __getattr__(self, name: str) -> Any:
            if name == "_inst":
                raise AttributeError(name)
            return getattr(self._inst, name)

    functools.update_wrapper(Made.__init__, target.__init__)  # type: ignore[misc]
    Made.__name__ = Made.__qualname__ = target.__name__
    Made.__doc__ = target.__doc__
    Made.__module__ = target.__module__
    return Made


class PrintIR(ModulePass):
    """Prints the module and returns it as it is."""

    def __init__(self, header: str = "", show_meta_data: bool = False) -> None:
        def show(mod: IRModule, _: PassContext) -> IRModule:
            print(f"PrintIR({header}):\n{mod.astext(show_meta_data)}")
            return mod

        super().__init__(show, PassInfo(0, "PrintIR"))


def ApplyPassToFunction(
    transform: Pass, func_name_regex: str, error_if_no_function_matches_regex: bool = False
) -> ModulePass:
    """Return a pass that applies another one to the functions whose whole name fits a pattern."""
    pattern = re.compile(func_name_regex)

    def apply(mod: IRModule, _: PassContext) -> IRModule:
        chosen = [n.name for n in mod.functions if pattern.fullmatch(n.name)]
        if not chosen and error_if_no_function_matches_regex:
            raise error("unknown-function", f"no function's name fits `{func_name_regex}`")
        return with_functions(mod, {n: transform(mod)[n] for n in chosen}) if chosen else mod

    return ModulePass(apply, PassInfo(0, "ApplyPassToFunction"))


def with_functions(mod: IRModule, functions: Mapping[str, Expr]) -> IRModule:
    """Return a module in which some functions are others."""
    module = unwrap(mod)
    changed = {n: f for n, f in functions.items() if isinstance(f, Function)}
    after = module.with_functions({**module.functions, **changed})
    return wrap(replace(after, altered=alters_library(module, after)), mod)


__getattr__ = absent("relayvm.transform")
