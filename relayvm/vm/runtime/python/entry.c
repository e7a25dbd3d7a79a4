/* The module `calls`: the type of entries, and how one is called. */
#define RVM_IMPORTS_NUMPY
#include "entry.h"

static PyObject *run_ready(entry *self, PyObject *out) {
    rvm_call *call = self->call;
    int32_t code;
    Py_BEGIN_ALLOW_THREADS
    code = call_begin(call);
    Py_END_ALLOW_THREADS
    entry_forget_objects(self, self->num_params, code != RVM_CALL_BUSY);
    if (!code) {
        return entry_take_results(self, out);
    }
    return entry_finish(self, code, out, NULL);
}

static PyObject *run_general(const entry *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *given = PyTuple_New(count), *named = PyDict_New(), *out = Py_None, *value = NULL;
    bool failed = !given || !named;
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        failed = PyTuple_SetItem(given, i, Py_NewRef(args[i])) != 0;
    }
    for (Py_ssize_t i = 0; names && i < PyTuple_Size(names) && !failed; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        if (PyUnicode_CompareWithASCIIString(name, "out") == 0) {
            out = args[count + i];
        } else {
            failed = PyDict_SetItem(named, name, args[count + i]) != 0;
        }
    }
    if (!failed) {
        value = PyObject_CallFunctionObjArgs(self->general, given, named, out, NULL);
    }
    Py_XDECREF(given);
    Py_XDECREF(named);
    return value;
}

/* The number of a parameter, or that of all where it is none. */
static uint32_t number_of(const entry *self, PyObject *name) {
    for (uint32_t i = 0; i < self->num_params; i++) {
        if (PyTuple_GetItem(self->names, i) == name) {
            return i;
        }
    }
    for (uint32_t i = 0; i < self->num_params; i++) {
        if (PyUnicode_Compare(PyTuple_GetItem(self->names, i), name) == 0) {
            return i;
        }
    }
    return self->num_params;
}

/* All arguments in order, lent until the next call; null where one is missing, unknown or given twice. */
static PyObject *const *in_order(entry *self, PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject **out) {
    const Py_ssize_t num_names = names ? PyTuple_Size(names) : 0;
    Py_ssize_t given = count;
    for (Py_ssize_t i = 0; i < (Py_ssize_t)self->num_params; i++) {
        self->ordered[i] = i < count ? args[i] : NULL;
    }
    for (Py_ssize_t i = 0; i < num_names; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        if (PyUnicode_CompareWithASCIIString(name, "out") == 0) {
            *out = args[count + i] == Py_None ? NULL : args[count + i];
            continue;
        }
        const uint32_t number = number_of(self, name);
        if (number == self->num_params || self->ordered[number]) {
            return NULL;
        }
        self->ordered[number] = args[count + i];
        given++;
    }
    return given == (Py_ssize_t)self->num_params ? self->ordered : NULL;
}

static PyObject *entry_run(PyObject *object, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    entry *self = (entry *)object;
    PyObject *out = NULL;
    PyObject *const *values = NULL;
    if (!self->is_running && count <= (Py_ssize_t)self->num_params) {
        const bool plain = !names && count == (Py_ssize_t)self->num_params;
        values = plain ? args : in_order(self, args, count, names, &out);
    }
    if (!values || (out && !entry_takes_outs(self, out))) {
        return run_general(self, args, count, names);
    }
    self->is_running = true;
    const answer set = entry_set_arguments(self, values);
    PyObject *value = set == SET ? run_ready(self, out) : NULL;
    entry_drop_arrays(self);
    self->is_running = false;
    return set == NOT_USUAL ? run_general(self, args, count, names) : value;
}

/* --- making them ------------------------------------------------------------------------------ */

static bool read_dim(PyObject *text, dim *into) {
    long symbol;
    long long factor, rest;
    if (!PyArg_ParseTuple(text, "lLL", &symbol, &factor, &rest)) {
        return false;
    }
    *into = (dim){.symbol = (int32_t)symbol, .factor = factor, .rest = rest};
    return true;
}

static bool read_place(PyObject *row, place *into) {
    int kind, dtype;
    PyObject *descr, *dims, *convert;
    if (!PyArg_ParseTuple(row, "iiOO!O", &kind, &dtype, &descr, &PyTuple_Type, &dims, &convert)) {
        return false;
    }
    into->kind = (value_kind)kind;
    into->dtype = (uint8_t)dtype;
    into->rank = (uint8_t)PyTuple_Size(dims);
    into->descr = Py_NewRef(descr);
    into->convert = Py_NewRef(convert);
    for (Py_ssize_t i = 0; i < PyTuple_Size(dims); i++) {
        if (!read_dim(PyTuple_GetItem(dims, i), &into->dims[i])) {
            return false;
        }
    }
    return true;
}

/* Null with an error set. */
static place *read_places(PyObject *rows, uint32_t *count) {
    const Py_ssize_t length = PyTuple_Size(rows);
    place *places = PyMem_Calloc((size_t)length + 1, sizeof *places);
    if (!places) {
        PyErr_NoMemory();
        return NULL;
    }
    *count = (uint32_t)length;
    for (Py_ssize_t i = 0; i < length; i++) {
        if (!read_place(PyTuple_GetItem(rows, i), &places[i])) {
            break;
        }
    }
    return places;
}

static PyObject *entry_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    unsigned long long address;
    unsigned int num_symbols;
    PyObject *names, *params, *results, *general, *finish, *borrow, *record;
    (void)named;
    if (!PyArg_ParseTuple(args, "KOIO!O!O!OOO", &address, &record, &num_symbols, &PyTuple_Type, &names, &PyTuple_Type,
                          &params, &PyTuple_Type, &results, &general, &finish, &borrow)) {
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    entry *self = (entry *)alloc(type, 0);
    if (!self) {
        return NULL;
    }
    self->call = (rvm_call *)(uintptr_t)address;
    self->record = Py_NewRef(record);
    self->general = Py_NewRef(general);
    self->finish = Py_NewRef(finish);
    self->borrow = Py_NewRef(borrow);
    self->names = Py_NewRef(names);
    self->num_symbols = num_symbols;
    self->symbols = PyMem_Calloc((size_t)num_symbols + 1, sizeof *self->symbols);
    self->params = read_places(params, &self->num_params);
    self->results = read_places(results, &self->num_results);
    self->ordered = PyMem_Calloc((size_t)self->num_params + 1, sizeof *self->ordered);
    self->kept = PyMem_Calloc((size_t)self->num_params + 1, sizeof *self->kept);
    if ((!self->symbols || !self->ordered || !self->kept) && !PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    if (PyErr_Occurred()) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int visit_places(const place *places, uint32_t count, visitproc visit, void *arg) {
    for (uint32_t i = 0; i < count; i++) {
        Py_VISIT(places[i].convert);
    }
    return 0;
}

static int entry_traverse(PyObject *object, visitproc visit, void *arg) {
    const entry *self = (entry *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->record);
    Py_VISIT(self->general);
    Py_VISIT(self->finish);
    return visit_places(self->params, self->num_params, visit, arg);
}

static int entry_clear(PyObject *object) {
    entry *self = (entry *)object;
    Py_CLEAR(self->general);
    Py_CLEAR(self->finish);
    for (uint32_t i = 0; i < self->num_params; i++) {
        Py_CLEAR(self->params[i].convert);
    }
    return 0;
}

static void free_places(place *places, uint32_t count) {
    for (uint32_t i = 0; places && i < count; i++) {
        Py_XDECREF(places[i].descr);
        Py_XDECREF(places[i].convert);
    }
    PyMem_Free(places);
}

static void entry_dealloc(PyObject *object) {
    entry *self = (entry *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_XDECREF(self->record);
    Py_XDECREF(self->general);
    Py_XDECREF(self->finish);
    free_places(self->params, self->num_params);
    free_places(self->results, self->num_results);
    Py_XDECREF(self->borrow);
    Py_XDECREF(self->names);
    PyMem_Free(self->symbols);
    PyMem_Free(self->ordered);
    PyMem_Free(self->kept);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyMethodDef entry_methods[] = {
    {"run", (PyCFunction)(void (*)(void))entry_run, METH_FASTCALL | METH_KEYWORDS,
     "Call the entry; see `VirtualMachine.invoke`."},
    {"run_many", entry_run_many, METH_O, "Call the entry on each tuple of a list; None where that is not usual."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot entry_slots[] = {
    {Py_tp_new, entry_new},           {Py_tp_dealloc, entry_dealloc}, {Py_tp_traverse, entry_traverse},
    {Py_tp_clear, entry_clear},       {Py_tp_methods, entry_methods},
    {Py_tp_doc, "An entry made ready to be called."}, {0, NULL},
};

static PyType_Spec entry_spec = {
    .name = "relayvm.vm.calls.Entry",
    .basicsize = sizeof(entry),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = entry_slots,
};

static int fill_module(PyObject *module) {
    import_array1(-1);
    PyObject *type = PyType_FromSpec(&entry_spec);
    if (!type || PyModule_AddObject(module, "Entry", type)) {
        Py_XDECREF(type);
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "calls", .m_doc = "Entries made ready to be called.", .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit_calls(void);
PyMODINIT_FUNC PyInit_calls(void) {
    return PyModuleDef_Init(&module);
}
