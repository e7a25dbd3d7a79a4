/* Many calls of an entry in one go: all arguments are set, all calls run, all results are taken. */
#include "entry.h"

/* What many calls need; `calls` lie one behind the other, as do the slots of each. */
typedef struct batch {
    uint32_t count;
    rvm_call *calls;
    rvm_argument *args;
    uint64_t *words;
    rvm_destination *destinations;
    PyObject **arrays; /* made for results before the calls run; null: none */
} batch;

static void batch_free(const entry *self, batch *b) {
    const size_t results = (size_t)b->count * self->num_results;
    for (size_t i = 0; b->words && i < results; i++) {
        if (self->results[i % self->num_results].kind != WORD && b->words[i]) {
            rvm_value_release(b->words[i]);
        }
    }
    for (size_t i = 0; b->arrays && i < results; i++) {
        Py_XDECREF(b->arrays[i]);
    }
    PyMem_Free(b->calls);
    PyMem_Free(b->args);
    PyMem_Free(b->words);
    PyMem_Free(b->destinations);
    PyMem_Free(b->arrays);
}

static bool batch_allocate(const entry *self, batch *b) {
    const size_t params = (size_t)b->count * self->num_params + 1, results = (size_t)b->count * self->num_results + 1;
    b->calls = PyMem_Calloc(b->count, sizeof *b->calls);
    b->args = PyMem_Calloc(params, sizeof *b->args);
    b->words = PyMem_Calloc(results, sizeof *b->words);
    b->destinations = PyMem_Calloc(results, sizeof *b->destinations);
    b->arrays = PyMem_Calloc(results, sizeof *b->arrays);
    if (!b->calls || !b->args || !b->words || !b->destinations || !b->arrays) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}

/* Whether no value of the entry is other than a tensor or a number. */
static bool has_plain_places(const entry *self) {
    for (uint32_t i = 0; i < self->num_params; i++) {
        if (self->params[i].kind == OTHER) {
            return false;
        }
    }
    for (uint32_t i = 0; i < self->num_results; i++) {
        if (self->results[i].kind == OTHER) {
            return false;
        }
    }
    return true;
}

static answer set_call(entry *self, batch *b, uint32_t number, PyObject *given) {
    if (!PyTuple_CheckExact(given) || PyTuple_Size(given) != (Py_ssize_t)self->num_params) {
        return NOT_USUAL;
    }
    for (uint32_t i = 0; i < self->num_params; i++) {
        self->ordered[i] = PyTuple_GetItem(given, i);
    }
    answer set = entry_set_arguments(self, self->ordered);
    for (uint32_t i = 0; i < self->num_params && set == SET; i++) {
        set = self->kept[i] ? NOT_USUAL : SET; /* an array made for it would have to be kept for long */
    }
    entry_drop_arrays(self);
    if (set == SET) {
        rvm_argument *args = b->args + (size_t)number * self->num_params;
        memcpy(args, self->call->args, self->num_params * sizeof *args);
    }
    return set;
}

/* An array for a result of known sizes, which the call fills; false with an error. */
static bool make_room(const place *declared, rvm_destination *to, PyObject **array) {
    for (unsigned i = 0; i < declared->rank; i++) {
        if (declared->dims[i].symbol != CONSTANT) {
            return true;
        }
        to->dims[i] = declared->dims[i].rest;
    }
    *array = entry_new_array(declared, to->dims, NULL);
    if (!*array) {
        return false;
    }
    to->data = PyArray_DATA((PyArrayObject *)*array);
    to->dtype = declared->dtype;
    to->rank = declared->rank;
    return true;
}

static bool set_results(const entry *self, batch *b, uint32_t number) {
    const size_t first = (size_t)number * self->num_results;
    for (uint32_t i = 0; i < self->num_results; i++) {
        const place *declared = &self->results[i];
        if (declared->kind == TENSOR && !make_room(declared, &b->destinations[first + i], &b->arrays[first + i])) {
            return false;
        }
    }
    rvm_call *call = &b->calls[number];
    *call = *self->call;
    call->args = b->args + (size_t)number * self->num_params;
    call->results = b->words + first;
    call->destinations = b->destinations + first;
    call->profile = NULL;
    return true;
}

static answer set_all(entry *self, batch *b, PyObject *tuples) {
    answer set = SET;
    self->is_running = true; /* what is asked of the host's tensors may call the entry */
    for (uint32_t i = 0; i < b->count && set == SET; i++) {
        set = set_call(self, b, i, PyList_GetItem(tuples, i));
        if (set == SET && !set_results(self, b, i)) {
            set = FAILED;
        }
    }
    self->is_running = false;
    return set;
}

/* The value of a result that no array was made for, which is consumed. */
static PyObject *left_result(const place *declared, uint64_t *word) {
    rvm_value_info info;
    rvm_value_inspect(*word, &info);
    if (info.kind != RVM_TENSOR || info.dtype != declared->dtype || info.rank != declared->rank) {
        PyErr_SetString(PyExc_SystemError, "a result is not of its type");
        return NULL;
    }
    PyObject *array = entry_new_array(declared, info.dims, NULL);
    if (array) {
        rvm_value_take_data(*word, PyArray_DATA((PyArrayObject *)array));
        *word = 0;
    }
    return array;
}

static PyObject *result_at(const entry *self, batch *b, uint32_t number, uint32_t i) {
    const size_t at = (size_t)number * self->num_results + i;
    const place *declared = &self->results[i];
    if (declared->kind == WORD) {
        return entry_word_result(declared, b->words[at], NULL);
    }
    if (b->words[at]) {
        return left_result(declared, &b->words[at]);
    }
    PyObject *array = b->arrays[at];
    b->arrays[at] = NULL;
    return array;
}

static PyObject *value_of(const entry *self, batch *b, uint32_t number) {
    if (self->num_results == 1) {
        return result_at(self, b, number, 0);
    }
    PyObject *values = PyTuple_New(self->num_results);
    for (uint32_t i = 0; values && i < self->num_results; i++) {
        PyObject *value = result_at(self, b, number, i);
        if (!value || PyTuple_SetItem(values, i, value)) {
            Py_CLEAR(values);
        }
    }
    return values;
}

static PyObject *run_all(const entry *self, batch *b) {
    uint32_t done;
    int32_t code;
    Py_BEGIN_ALLOW_THREADS
    code = rvm_machine_invoke_many(b->calls, b->count, &done);
    Py_END_ALLOW_THREADS
    PyObject *results = PyList_New(done);
    for (uint32_t i = 0; results && i < done; i++) {
        PyObject *value = value_of(self, b, i);
        if (!value || PyList_SetItem(results, i, value)) {
            Py_CLEAR(results);
        }
    }
    PyObject *both = results ? Py_BuildValue("iN", (int)code, results) : NULL;
    return both;
}

PyObject *entry_run_many(PyObject *object, PyObject *tuples) {
    entry *self = (entry *)object;
    const Py_ssize_t count = PyList_CheckExact(tuples) ? PyList_Size(tuples) : 0;
    if (count < 1 || count > INT32_MAX || self->is_running || !has_plain_places(self)) {
        Py_RETURN_NONE;
    }
    batch b = {.count = (uint32_t)count};
    PyObject *value = NULL;
    if (batch_allocate(self, &b)) {
        const answer set = set_all(self, &b, tuples);
        if (set == SET) {
            value = run_all(self, &b);
        } else if (set == NOT_USUAL) {
            value = Py_NewRef(Py_None);
        }
    }
    batch_free(self, &b);
    return value;
}
