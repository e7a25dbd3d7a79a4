/* Arguments of a call, and arrays of the caller's for results: whether they are usual. */
#include "entry.h"

#include <float.h>

#define UNBOUND INT64_MIN

static bool bind(entry *self, const dim *declared, int64_t size) {
    if (declared->symbol == CONSTANT) {
        return size == declared->rest;
    }
    if (declared->symbol == ANY) {
        return true;
    }
    int64_t value = size - declared->rest;
    if (declared->factor != 1) {
        if (value % declared->factor) {
            return false;
        }
        value /= declared->factor;
    }
    int64_t *known = &self->symbols[declared->symbol];
    if (*known == UNBOUND && value >= 0) {
        *known = value;
    }
    return *known == value;
}

/* An array of the same elements that may fit: of one whose elements do not lie in order, or of another library's tensor.
 * Null where there is none, perhaps with an error that is not about the argument. */
static PyObject *made_to_fit(const entry *self, const place *declared, PyObject *value) {
    PyObject *made = NULL;
    if (PyArray_CheckExact(value)) {
        PyArrayObject *array = (PyArrayObject *)value;
        if ((PyObject *)PyArray_DESCR(array) == declared->descr && PyArray_NDIM(array) == declared->rank) {
            made = (PyObject *)PyArray_GETCONTIGUOUS(array);
        }
    } else if (declared->dtype < RVM_DTYPE_BFLOAT16 && !PyArray_Check(value) &&
               PyObject_HasAttrString(value, "__dlpack__")) {
        made = PyObject_CallFunctionObjArgs(self->borrow, value, NULL);
        if (!made && PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_Clear();
        }
    }
    return made;
}

static bool set_array(entry *self, const place *declared, rvm_argument *slot, PyObject *value) {
    PyArrayObject *array = (PyArrayObject *)value;
    for (unsigned i = 0; i < declared->rank; i++) {
        const int64_t size = PyArray_DIM(array, (int)i);
        if (!bind(self, &declared->dims[i], size)) {
            return false;
        }
        slot->dims[i] = size;
    }
    slot->data = PyArray_DATA(array);
    return true;
}

static answer set_tensor(entry *self, uint32_t i, PyObject *value) {
    const place *declared = &self->params[i];
    if (!place_fits(declared, value)) {
        value = self->kept[i] = made_to_fit(self, declared, value);
        if (!value) {
            return PyErr_Occurred() ? FAILED : NOT_USUAL;
        }
        if (!place_fits(declared, value)) {
            return NOT_USUAL;
        }
    }
    return set_array(self, declared, &self->call->args[i], value) ? SET : NOT_USUAL;
}

static bool set_float(uint8_t dtype, double value, uint64_t *word) {
    if (dtype == RVM_DTYPE_FLOAT64) {
        memcpy(word, &value, sizeof value);
        return true;
    }
    if (dtype != RVM_DTYPE_FLOAT32 || !(value >= -(double)FLT_MAX && value <= (double)FLT_MAX)) {
        return false;
    }
    const float narrow = (float)value;
    *word = 0;
    memcpy(word, &narrow, sizeof narrow);
    return true;
}

static bool set_integer(uint8_t dtype, PyObject *value, uint64_t *word) {
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow || dtype < RVM_DTYPE_INT8 || dtype > RVM_DTYPE_UINT64) {
        return false;
    }
    /* In range if storing and loading it changes nothing. */
    *word = tensor_load_word(dtype, &number);
    return *word == (uint64_t)number && (number >= 0 || dtype <= RVM_DTYPE_INT64);
}

static bool set_word(const place *declared, rvm_argument *slot, PyObject *value) {
    if (PyFloat_CheckExact(value)) {
        return set_float(declared->dtype, PyFloat_AsDouble(value), &slot->word);
    }
    if (PyLong_CheckExact(value)) {
        return set_integer(declared->dtype, value, &slot->word);
    }
    if (place_fits(declared, value)) {
        slot->word = tensor_load_word(declared->dtype, PyArray_DATA((PyArrayObject *)value));
        return true;
    }
    /* numpy does not find the element in scalars of dtypes that are not its own. */
    if (PyArray_IsScalar(value, Generic) && declared->dtype < RVM_DTYPE_BFLOAT16) {
        PyArray_Descr *descr = PyArray_DescrFromScalar(value);
        const bool same = (PyObject *)descr == declared->descr;
        uint64_t element = 0;
        if (same) {
            PyArray_ScalarAsCtype(value, &element);
            slot->word = tensor_load_word(declared->dtype, &element);
        }
        Py_XDECREF(descr);
        return same;
    }
    return false;
}

static answer set_object(const place *declared, rvm_argument *slot, PyObject *value) {
    PyObject *made = PyObject_CallFunctionObjArgs(declared->convert, value, NULL);
    if (!made) {
        return FAILED;
    }
    slot->word = PyLong_AsUnsignedLongLong(made);
    Py_DECREF(made);
    return PyErr_Occurred() ? FAILED : SET;
}

void entry_drop_arrays(entry *self) {
    for (uint32_t i = 0; i < self->num_params; i++) {
        Py_CLEAR(self->kept[i]);
    }
}

void entry_forget_objects(entry *self, uint32_t count, bool are_taken) {
    for (uint32_t i = 0; i < count; i++) {
        if (self->params[i].kind == OTHER) {
            if (!are_taken) {
                rvm_value_release(self->call->args[i].word);
            }
            self->call->args[i].word = 0;
        }
    }
}

answer entry_set_arguments(entry *self, PyObject *const *args) {
    for (uint32_t i = 0; i < self->num_symbols; i++) {
        self->symbols[i] = UNBOUND;
    }
    for (uint32_t i = 0; i < self->num_params; i++) {
        const place *declared = &self->params[i];
        rvm_argument *slot = &self->call->args[i];
        answer set = NOT_USUAL;
        if (declared->kind == TENSOR) {
            set = set_tensor(self, i, args[i]);
        } else if (declared->kind == WORD) {
            set = set_word(declared, slot, args[i]) ? SET : NOT_USUAL;
        } else {
            set = set_object(declared, slot, args[i]);
        }
        if (set != SET) {
            entry_forget_objects(self, i, false);
            return set;
        }
    }
    return SET;
}

/* --- arrays of the caller's for results ----------------------------------------------------- */

static bool takes(const place *declared, PyObject *out) {
    if (declared->kind == OTHER || !place_fits(declared, out) || !PyArray_ISWRITEABLE((PyArrayObject *)out)) {
        return false;
    }
    for (unsigned i = 0; i < declared->rank; i++) {
        const dim *size = &declared->dims[i];
        if (size->symbol == CONSTANT && PyArray_DIM((PyArrayObject *)out, (int)i) != size->rest) {
            return false;
        }
    }
    return true;
}

static bool overlap(PyObject *a, PyObject *b) {
    const char *first = PyArray_BYTES((PyArrayObject *)a), *second = PyArray_BYTES((PyArrayObject *)b);
    return first < second + PyArray_NBYTES((PyArrayObject *)b) && second < first + PyArray_NBYTES((PyArrayObject *)a);
}

bool entry_takes_outs(const entry *self, PyObject *out) {
    if (self->num_results != 1 && (!PyTuple_CheckExact(out) || PyTuple_Size(out) != self->num_results)) {
        return false;
    }
    for (uint32_t i = 0; i < self->num_results; i++) {
        PyObject *item = entry_out(self, out, i);
        if (item && !takes(&self->results[i], item)) {
            return false;
        }
        for (uint32_t j = 0; item && j < i; j++) {
            PyObject *other = entry_out(self, out, j);
            if (other && overlap(item, other)) {
                return false;
            }
        }
    }
    return true;
}
