"""The table of error codes: what each means and the way out, as `relayvm explain` shows it."""

from __future__ import annotations

ERROR_CODES: dict[str, str] = {
    "syntax": (
        "The text is not Relay.\n\n"
        "The carets stand under the token that cannot come at this place; the message lists what "
        "can. `relayvm/ir/grammar.md` holds the whole grammar."
    ),
    "unknown-target": (
        "A target names a device kind and, optionally, its CPU.\n\n"
        "Known is `cpu`, with `-mtriple=`, `-mcpu=` and `-mattr=` as LLVM spells them, for example "
        "`cpu -mcpu=skylake-avx512`."
    ),
    "bad-setting": (
        "An environment variable of RelayVM has a value that cannot be read.\n\n"
        "`relayvm settings` lists each with its default and meaning."
    ),
    "shape-mismatch": (
        "Sizes that must agree are different.\n\n"
        "The message names both axes and both sizes. A size written `?` or as a symbol is compared "
        "when the program runs."
    ),
    "dtype-mismatch": (
        "An operand has an element type that the operator does not take, or two operands differ in "
        "it.\n\n"
        'Nothing is converted silently: write `cast(x, dtype="float32")`.'
    ),
    "type-mismatch": (
        "A value of one type stands where another is required.\n\n"
        "The message names both types as the program spells them."
    ),
    "wrong-arity": (
        "A call has more or fewer arguments than what it calls takes.\n\n"
        "The message names the parameters."
    ),
    "bad-attribute": (
        "An attribute of an operator is unknown, missing, or has a value that is not allowed.\n\n"
        "`docs/reference/operators.md` lists the attributes of each operator with their defaults."
    ),
    "bad-axis": (
        "An axis is outside the rank of the tensor, or is named twice.\n\n"
        "Axes count from 0; negative ones count from the end, -1 being the last."
    ),
    "bad-node": (
        "What a node of a program built from Python holds is not what belongs there.\n\n"
        "Expressions hold expressions: wrap numbers and arrays in `relay.const`. Types hold types, "
        "and parameters are variables."
    ),
    "bad-parameters": (
        "Bytes that should hold parameters are no such bytes, or are damaged.\n\n"
        "`relay.save_param_dict` writes them and `relay.load_param_dict` reads them; the message "
        "names the byte."
    ),
    "not-equal": (
        "Two programs, expressions or types that should be the same are not.\n\n"
        "Names of what is bound do not matter; types, attributes, bits of constants and what is "
        "shared with what do."
    ),
    "bad-json": (
        "A JSON text does not describe a program.\n\n"
        "`save_json` writes such texts and `load_json` reads them; the message names the node that "
        "cannot be read."
    ),
    "unknown-dtype": (
        "No element type has this name.\n\n"
        "Known are `bool`, `int8` to `int64`, `uint8` to `uint64`, `float16`, `bfloat16`, "
        "`float32` and `float64`; and for what is stored and computed in a wider one, `int2`, "
        "`int4`, `uint2`, `uint4`, `float4_e2m1fn`, `float8_e4m3fn`, `float8_e4m3fnuz`, "
        "`float8_e5m2` and `float8_e5m2fnuz`."
    ),
    "bad-literal": (
        "A number or string literal means nothing.\n\n"
        "Integers are int32, or int64 where they do not fit; a suffix names another type: `1i64`, "
        "`1u8`. Floats end in `f`, with the width behind it if it is not 32: `1.5f`, `1f64`, "
        "`1e-3f16`, `1bf16`; also `inff`, `-inff` and `nanf`."
    ),
    "bad-dim": (
        "A dim cannot be what it says.\n\n"
        "A dim is an integer of at least 0, `?`, or an expression over names such as `n*2 + 1`, `n "
        "// 2`, `min(n, m)`."
    ),
    "bad-metadata": (
        "A reference into the metadata section, or the section itself, cannot be read.\n\n"
        "The section stands at the end of the text after `#[metadata]`: a JSON object with a list "
        "`relay.Constant` of objects with `dtype`, `shape` and `data`, the elements in base64, "
        "little-endian and row-major. `meta[relay.Constant][0]` is the first of them. With `file`, "
        "the name of a safetensors file beside the text, `tensor` stands in the place of `data`."
    ),
    "duplicate-name": (
        "A name is given to two things.\n\n"
        "Functions, data types and constructors each have one definition in a module; parameters, "
        "variables of one pattern and attributes of one call have different names."
    ),
    "library-conflict": (
        "A function of the library works on a library definition that the program replaces by its "
        "own.\n\n"
        "For example, a program with its own `type List` cannot call the library's `@map`. Rename "
        "one, or define the function as well."
    ),
    "unknown-library": (
        "A file of the library is asked for that there is not.\n\n"
        "The files are `prelude.rly` and `array.rly`, which every program may use without asking, "
        "`core.rly`, `gradient.rly` and `nat.rly`."
    ),
    "missing-attribute": (
        "A call lacks an attribute that has no default.\n\n"
        "Attributes are written after the operands: `clip(%x, a_min=0f, a_max=6f)`."
    ),
    "too-deep": (
        "Types, patterns or attribute values are nested deeper than any program needs.\n\n"
        "Expressions may nest as deep as you like."
    ),
    "too-large-type": (
        "A type is larger than any program needs.\n\n"
        "Types may share their parts, as in `type A = (int32, int32); type B = (A, A);`, and "
        "double with each step. What a type would be if it were written out counts."
    ),
    "unknown-attribute": (
        "A call gives an attribute that the operator does not have.\n\n"
        "The message lists those it has."
    ),
    "unknown-constructor": (
        "A pattern or expression names a constructor that no data type has.\n\n"
        "Constructors come from the `type` definitions of the module, or from the library: `Cons`, "
        "`Nil`, `Some`, `None`, `Rose`."
    ),
    "unknown-function": (
        "A name that begins with `@` is not a function of the module or of the library."
    ),
    "unknown-operator": (
        "A bare name in an expression is neither an operator nor a constructor.\n\n"
        "Variables are written `%x`, global functions `@f`."
    ),
    "reserved-name": (
        "A type, a data type or a type parameter has a name that means something else in the place "
        "of a type.\n\n"
        "These are the element types such as `int32`, `Tensor`, and `_`, which stands for a type "
        "that is to be inferred. Choose another name."
    ),
    "unknown-type": (
        "A name in the place of a type is not one.\n\n"
        "Types are element types such as `float32`, `Tensor[(2, n), float32]`, tuples, `fn (A) -> "
        "B`, `ref(T)`, data types, and the type parameters of the function or data type. A dim "
        "name must be a type parameter too: `def @f[n](%x: Tensor[(n,), float32])`."
    ),
    "unknown-variable": (
        "A name that begins with `%` is not bound here.\n\n"
        "Variables are bound by parameters, `let`, patterns and `%0 = ...;`. A `let` variable is "
        "not visible in its own value unless that is a function."
    ),
    "unsupported-version": (
        "The text was written for another version of the format.\n\nOnly version 0.0.5 is read."
    ),
    "wrong-kind": (
        "A dim stands where a type is needed, or a type where a dim is, or a data type has another "
        "number of arguments.\n\n"
        "A type parameter used as a dim is of kind ShapeVar everywhere; write `[n: ShapeVar]` to "
        "say so."
    ),
    "not-a-function": (
        "Something that is no function is called.\n\n"
        "Only operators, constructors, global functions and values of a function type `fn (...) -> "
        "...` can be called."
    ),
    "incomplete-match": (
        "A `match` leaves values without a clause.\n\n"
        "The message shows values that no clause fits. Add clauses for them, end with `_ => ...`, "
        "or write `match?`, which traps where no clause fits."
    ),
    "cannot-infer": (
        "A type does not follow from the program.\n\n"
        "Nothing that is known about a parameter, a type argument or a result fixes its type. "
        "Annotate it: `%x: Tensor[(2, 3), float32]`, `-> int32`, or give the call its type "
        "arguments."
    ),
    "infinite-type": (
        "A type would have to contain itself.\n\n"
        "A value is used as a part of its own type, for example a list as its own element, or a "
        "function calls itself with another instance of its type parameters without annotations. "
        "Annotate the parameters and the result."
    ),
    "tuple-index": (
        "A field is taken that the tuple does not have.\n\n"
        "Fields are numbered from 0: a tuple of two fields has `.0` and `.1`."
    ),
    "operator-value": (
        "An operator is used as a value.\n\n"
        "Operators can only be called, for their types depend on their operands. Wrap it in a "
        "function: `fn (%x) { exp(%x) }`."
    ),
    "bad-condition": (
        "The condition of `if` is not a rank-0 bool.\n\n"
        "Compare the value (`%x > 0`), or reduce a tensor with `all` or `any`."
    ),
    "not-a-reference": (
        "A value that is no reference is read or written as one.\n\n"
        "References are made by `ref(value)`."
    ),
    "runtime-not-built": (
        "The compiled part of the virtual machine is missing or cannot be imported.\n\n"
        "Build it with `python -m relayvm.vm.runtime.build` (a C compiler and cffi are needed), or "
        "install a wheel."
    ),
    "wrong-argument": (
        "An argument of a run is not of its parameter's type.\n\n"
        "The message names the parameter, its type and what was given. Nothing was run. Arrays "
        "need the declared dtype: `x.astype(numpy.float32)` makes one; a size that is a number or "
        "a symbol must agree with the other arguments."
    ),
    "unknown-entry": (
        "The executable has no function of this name that can be called.\n\n"
        "The message lists those that it has; `compile(..., entries=[...])` decides which there "
        "are."
    ),
    "machine-busy": (
        "A virtual machine runs one invocation at a time.\n\n"
        "Make one machine for each thread; they are cheap and share the executable."
    ),
    "not-ready": (
        "The executable has kernels without code for this machine.\n\n"
        "Load it with `relayvm.load`, which builds what is missing or says why it may not."
    ),
    "index-out-of-range": (
        "An index is outside its axis or array.\n\n"
        "The trap names the source line of the access, the index and the size of the axis."
    ),
    "run-time-shape": (
        "A size that is known only at run time is not what the program requires.\n\n"
        "The trap names both sizes and the line that requires them to agree."
    ),
    "match-failed": (
        "No clause of a `match?` fits the value.\n\nAdd the missing patterns or a `_` clause."
    ),
    "out-of-memory": (
        "The program needs more memory than the machine may use.\n\n"
        "The limit is `VirtualMachine(max_memory=...)` in bytes, by default 80% of what the "
        "process may use. The machine stays usable."
    ),
    "out-of-steps": (
        "The program took more steps than `VirtualMachine(max_steps=...)` allows.\n\n"
        "A step is the entry of a function; a kernel counts as its work divided by 4,096."
    ),
    "out-of-depth": (
        "Calls are nested deeper than `VirtualMachine(max_depth=...)` allows.\n\n"
        "The default is 2,000,000. A recursion whose last act is the call needs no depth."
    ),
    "interrupted": (
        "The run was stopped by `vm.interrupt()` or a signal.\n\n"
        "The machine can be used again at once."
    ),
    "empty-reference": ("A reference is read while its value is taken out for an update in place."),
    "size-overflow": (
        "A tensor or array would be larger than 2^46 bytes, or have a negative size."
    ),
    "bad-value": (
        "A value is outside what an operator or instruction accepts.\n\n"
        "The message names the value and what is allowed."
    ),
    "ill-formed": (
        "A program built or changed in Python breaks a rule of structure.\n\n"
        "Every variable has one binder and is used in its scope; functions, data types and "
        "constructors that are named exist in the module; type parameters are in scope and of the "
        "right kind. A text that the parser accepts never breaks them."
    ),
    "bad-executable": (
        "The file is not an executable, or a part of it is not what an executable may hold.\n\n"
        "The message names the byte. A file that `relayvm.compile` wrote is never refused; copy it "
        "again, or compile the program again."
    ),
    "executable-version": (
        "The executable has a format that this RelayVM does not read.\n\n"
        "The message names both versions. Compile the program again, or install the RelayVM that "
        "wrote the file."
    ),
    "checksum-mismatch": (
        "The file has changed since it was written.\n\n"
        "The message names the section. Copy the file again, or compile the program again. The "
        "checksum of constants is compared by `relayvm verify` and `load(verify_constants=True)`."
    ),
    "late-constants": (
        "The executable lacks constants, so that it cannot run yet.\n\n"
        "`exe.split_constants(least_bytes)` moved them out of it, and `exe.with_constants(arrays)` "
        "returns the executable with them again. By TVM's names that is `move_late_bound_consts` "
        "and `load_late_bound_consts`."
    ),
    "wrong-constants": (
        "Arrays that should be the constants that an executable lacks are not.\n\n"
        "The message names what is missing, what is not among them, and what has another dtype, "
        "shape or contents. `exe.late_constants` lists what is wanted."
    ),
    "native-not-allowed": (
        "The file's native code may not run, and its portable kernels cannot be compiled here.\n\n"
        "Native code of a file runs only with `load(..., native=True)`, if the CPU has the "
        "features it needs. Otherwise kernels are compiled from the file, which needs llvmlite."
    ),
    "bad-assembly": (
        "The text is not bytecode assembly.\n\n"
        "`relayvm disassemble FILE` shows how it is written; `docs/reference/instructions.md` "
        "lists the instructions."
    ),
    "no-gradient": (
        "A program cannot be differentiated at this place.\n\n"
        "The message names the operator and why it has no gradient, or the part of the language "
        "that the mode does not follow. Values that are no floats need no gradient: casts and "
        "comparisons end it without harm."
    ),
    "endless-rewriting": (
        "Rewriting by patterns did not come to an end.\n\n"
        "Each round of the rules changed the program again. A rule whose result it matches itself, "
        "or two that undo each other, need a condition that ends this, or `rewrite_once`."
    ),
    "unknown-pass": (
        "No pass has this name.\n\n`relayvm opt --list` lists all passes with what they do."
    ),
    "unknown-parameter": (
        "`params` names a parameter that the entry does not have.\n\n"
        "The message lists those it has."
    ),
    "bad-operator": (
        "An operator given to `relayvm.parse(operators=...)` is not what is needed, or fails.\n\n"
        "The message names the operator, and the facet that it lacks or what its code raised. "
        "`docs/how-to/custom-operators.md` shows a complete one."
    ),
    "several-devices": (
        "Annotations place parts of a program on different devices.\n\n"
        "A program runs on one device as a whole, that of its target: `on_device` and "
        "`device_copy` may name that one alone."
    ),
    "bad-option": (
        "An option of a command or of a virtual machine has a value that it cannot have.\n\n"
        "`relayvm COMMAND --help` and `help(relayvm.VirtualMachine)` tell what there is; limits "
        "are whole numbers of at least 0."
    ),
    "folded-loop": (
        "A program that `relayvm bench overhead` measures does not run all its rounds one by one."
        "\n\nThe compiler has found a way around them, so their time says nothing. Change the "
        "program so that each round needs the one before, and say in its first lines how many "
        "steps a round takes."
    ),
    "nest-syntax": (
        "The text is not a loop nest.\n\n"
        "Nests are the portable form of kernels in executables; `relayvm inspect` prints them. The "
        "carets stand under the token that cannot come at this place."
    ),
    "bad-nest": (
        "A loop nest breaks a rule: scopes, dtypes, widths, or what may be written.\n\n"
        "Nests that the compiler makes keep all rules, so the file was changed or is damaged; "
        "compile the program again."
    ),
    "rank-limit": (
        "A tensor has more axes than kernels can address, which is 8.\n\n"
        "Join axes with `reshape` before the operator, or remove those of size 1 with `squeeze`."
    ),
    "too-many-registers": (
        "A function holds more values at one time than the machine has registers for.\n\n"
        "Split it into functions, or keep the values in a list or another data type."
    ),
    "unreadable-dim": (
        "A size that a type parameter names is needed at run time, but nothing has it as an axis."
        "\n\nSizes are read from tensors, also in tuples, that are parameters of the function: "
        "from axes such as `n` or `n*2 + 1`. Add a parameter with such an axis, or pass the "
        "size as a number."
    ),
    "unreadable-file": (
        "A file cannot be read, or does not hold what its name promises.\n\n"
        "The message has the reason that the system gave."
    ),
    "unwritable-file": (
        "A file cannot be written.\n\n"
        "The message has the reason that the system gave. Files are written whole under another "
        "name first, so an older file of this name is as it was."
    ),
    "no-c-compiler": (
        "The library for C programs cannot be built: there is no C compiler, or it failed.\n\n"
        "`relayvm library` runs `cc`, or what `--compiler` says; the message has the first error "
        "that it printed."
    ),
    "bad-tree": (
        "A text is not a list of binary trees in Penn Treebank brackets.\n\n"
        "A leaf is `(LABEL token)`, a node `(LABEL left right)`; a file has one tree a line."
    ),
    "not-finite": (
        "A result has a NaN or an infinity, and `--check-finite` asked for none.\n\n"
        "The first such result is named; run without the option to see its values."
    ),
    "unknown-code": (
        "`relayvm explain` knows no error code of this name.\n\n"
        "Without a code it lists all of them."
    ),
    "higher-order-entry": (
        "A pass that leaves no function values met an entry that takes or returns functions.\n\n"
        "`defunctionalize` turns functions into data that only the program itself can make. Let "
        "`@main`, or the functions that the module names as entries, take and return data."
    ),
    "no-entry": (
        "A module has no function that could be called from outside.\n\n"
        "Define one, or name instances of functions with type parameters: "
        '`entries=["length[int32]"]`.'
    ),
    "polymorphic-entry": (
        "A function with type parameters cannot be called from outside as it is.\n\n"
        'Name an instance, as in `entries=["length[int32]"]`, or `main` with types of its own. Nor '
        "can a value hold one whose operators depend on its type parameters: hold an instance.\n\n"
        "Functions that take or give references of several sizes have no common data type where "
        "`defunctionalize` makes data of them: pass what the references hold.\n\n"
        "Data that holds itself at other types without end, as `type Nest[A] { Stop, Nest(A, "
        "Nest[(A, A)]) }`, cannot be told to the host: only what is inside may use it."
    ),
}
