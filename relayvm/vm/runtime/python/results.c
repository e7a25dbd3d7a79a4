/* Results of a call, as arrays: in those of the caller's, copied, or lent. */
#include "entry.h"

#include "lending.h"

#define LEAST_LENT_BYTES 2048u /* smaller results are copied: that takes less time than to lend them */
#define LONG_COPY_BYTES 65536u /* while which other threads of Python run */

PyObject *entry_new_array(const place *declared, const int64_t *dims, void *data) {
    npy_intp sizes[RVM_MAX_RANK];
    for (unsigned i = 0; i < declared->rank; i++) {
        sizes[i] = dims[i];
    }
    Py_INCREF(declared->descr);
    return PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)declared->descr, declared->rank, sizes, NULL, data,
                                data ? NPY_ARRAY_CARRAY : 0, NULL);
}

PyObject *entry_word_result(const place *declared, uint64_t word, PyObject *out) {
    PyObject *array = out;
    if (out) {
        Py_INCREF(out);
    } else {
        array = entry_new_array(declared, NULL, NULL);
    }
    if (array) {
        tensor_store_word(declared->dtype, PyArray_DATA((PyArrayObject *)array), word);
    }
    return array;
}

static void end_loan(PyObject *capsule) {
    lending_take_back(PyCapsule_GetContext(capsule), PyCapsule_GetPointer(capsule, NULL));
}

/* An array over the memory of a tensor that nobody else has, which is consumed; null, without an error, where that
 * cannot be. */
static PyObject *lent(rvm_machine *m, const place *declared, rvm_tensor *tensor) {
    if (tensor_bytes(tensor) < LEAST_LENT_BYTES) {
        return NULL;
    }
    PyObject *array = entry_new_array(declared, tensor->dims, tensor->data);
    PyObject *owner = array ? PyCapsule_New(tensor, NULL, NULL) : NULL;
    if (!owner || PyCapsule_SetContext(owner, m->lender) ||
        PyArray_SetBaseObject((PyArrayObject *)array, owner)) { /* which takes the owner, come what may */
        Py_XDECREF(array);
        PyErr_Clear();
        return NULL;
    }
    if (!lending_give(m, tensor)) {
        Py_DECREF(array);
        return NULL;
    }
    PyCapsule_SetDestructor(owner, end_loan);
    return array;
}

static bool fits(const rvm_tensor *tensor, PyObject *out) {
    for (unsigned i = 0; i < tensor->rank; i++) {
        if (tensor->dims[i] != PyArray_DIM((PyArrayObject *)out, (int)i)) {
            return false;
        }
    }
    return true;
}

static void copy_data(const rvm_tensor *tensor, void *to) {
    if (tensor_bytes(tensor) < LONG_COPY_BYTES) {
        memmove(to, tensor->data, tensor_bytes(tensor)); /* an argument may take a result that is an argument */
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    memmove(to, tensor->data, tensor_bytes(tensor));
    Py_END_ALLOW_THREADS
}

/* The value of a tensor, which is consumed then; None where it must be left. Null: an error. */
static PyObject *tensor_result(rvm_machine *m, const place *declared, uint64_t *word, PyObject *out) {
    rvm_tensor *tensor = word_tensor(*word);
    const bool usual = tensor->head.kind == RVM_TENSOR && tensor->dtype == declared->dtype &&
                       tensor->rank == declared->rank && (!out || fits(tensor, out));
    if (!usual) {
        Py_RETURN_NONE;
    }
    PyObject *array = out;
    if (out) {
        Py_INCREF(out);
    } else {
        array = lent(m, declared, tensor);
        if (array) {
            *word = 0;
            return array;
        }
        array = entry_new_array(declared, tensor->dims, NULL);
    }
    if (array) {
        copy_data(tensor, PyArray_DATA((PyArrayObject *)array));
        object_release(&m->heap, &tensor->head);
        *word = 0;
    }
    return array;
}

static PyObject *result_of(entry *self, uint32_t i, PyObject *out) {
    rvm_call *call = self->call;
    const place *declared = &self->results[i];
    if (declared->kind == WORD) {
        return entry_word_result(declared, call->results[i], out);
    }
    if (declared->kind == TENSOR) {
        return tensor_result(call->machine, declared, &call->results[i], out);
    }
    Py_RETURN_NONE;
}

PyObject *entry_finish(entry *self, int32_t code, PyObject *out, PyObject *values) {
    PyObject *number = PyLong_FromLong(code);
    PyObject *given = !out ? NULL : self->num_results == 1 ? PyTuple_Pack(1, out) : Py_NewRef(out);
    PyObject *value = NULL;
    if (number && (given || !out)) {
        value = PyObject_CallFunctionObjArgs(self->finish, self->record, number, given ? given : Py_None,
                                             values ? values : Py_None, NULL);
    }
    Py_XDECREF(number);
    Py_XDECREF(given);
    return value;
}

static void drop_results(const rvm_call *call, uint32_t count, const place *results) {
    for (uint32_t i = 0; i < count; i++) {
        if (results[i].kind != WORD && call->results[i]) {
            rvm_value_release(call->results[i]);
            call->results[i] = 0;
        }
    }
}

static int32_t end_slowly(rvm_call *call) {
    int32_t code;
    Py_BEGIN_ALLOW_THREADS
    code = call_end(call);
    Py_END_ALLOW_THREADS
    return code;
}

/* Ends a call whose results are there: a value for each that is usual. */
PyObject *entry_take_results(entry *self, PyObject *out) {
    rvm_call *call = self->call;
    bool left = false, failed = false;
    PyObject *values = NULL, *value = NULL;
    const bool single = self->num_results == 1;
    const int32_t early = out && !single ? call_share(call) : 0;
    if (!single && !early) {
        values = PyTuple_New(self->num_results);
        failed = !values;
    }
    for (uint32_t i = 0; i < self->num_results && !failed && !early; i++) {
        value = result_of(self, i, entry_out(self, out, i));
        failed = !value || (!single && PyTuple_SetItem(values, i, value));
        left = left || (self->results[i].kind != WORD && call->results[i]);
    }
    const int32_t late = left || call->machine->program->cyclic ? end_slowly(call) : call_end(call);
    const int32_t code = early ? early : late;
    if (!failed && !left && !code) {
        return single ? value : values;
    }
    if (single && value) {
        values = PyTuple_Pack(1, value);
        failed = failed || !values;
        Py_DECREF(value);
    }
    PyObject *end = NULL;
    if (failed) {
        drop_results(call, self->num_results, self->results);
    } else {
        end = entry_finish(self, code, out, values);
    }
    Py_XDECREF(values);
    return end;
}
