/* Entries made ready to be called from Python, arguments and results crossing at once. The usual case is all that is
 * done here; every other call, wrong ones too, goes to a function in Python. All of it holds the interpreter's lock but
 * where it says so. */
#ifndef RVM_ENTRY_H
#define RVM_ENTRY_H

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL rvm_numpy
#ifndef RVM_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

#include "tensor.h"
#include "value.h"

typedef enum { WORD = 0, TENSOR = 1, OTHER = 2 } value_kind;
enum { CONSTANT = -1, ANY = -2 };

/* A size as it is declared: `rest`, or symbol * factor + rest. */
typedef struct dim {
    int32_t symbol; /* its number, or CONSTANT or ANY */
    int64_t factor, rest;
} dim;

typedef struct place {
    value_kind kind;
    uint8_t dtype, rank;
    PyObject *descr;   /* of numpy, where it is a tensor */
    PyObject *convert; /* makes an object of any other argument */
    dim dims[RVM_MAX_RANK];
} place;

/* `general(args, named, out)` runs the entry in every case; `finish(record, code, outs, values)` ends a call that was
 * begun here but has no usual end; `borrow(tensor)` returns an array over the memory of another library's tensor;
 * `record` owns the buffers of `call`. */
typedef struct entry {
    PyObject_HEAD
    rvm_call *call;
    PyObject *general, *finish, *borrow, *record;
    PyObject *names;    /* of the parameters */
    PyObject **ordered; /* arguments of a call that names some */
    PyObject **kept;    /* arrays made for a call; null where there is none */
    place *params, *results;
    int64_t *symbols; /* what they are bound to in this call */
    uint32_t num_params, num_results, num_symbols;
    bool is_running;
} entry;

typedef enum { SET, NOT_USUAL, FAILED } answer;

/* Sets the arguments of the call; unless that succeeds it holds no object. */
answer entry_set_arguments(entry *self, PyObject *const *args);
/* Drops the arrays that were made for the call. */
void entry_drop_arrays(entry *self);
/* Forgets the objects among the first arguments, which a call has taken or which go now. */
void entry_forget_objects(entry *self, uint32_t count, bool are_taken);
/* Whether arrays of the caller's are surely such that results can go into them. */
bool entry_takes_outs(const entry *self, PyObject *out);
/* Ends a call that has begun and has not trapped: returns its result, or null with an error. `out` may be null. */
PyObject *entry_take_results(entry *self, PyObject *out);
/* Ends a call in Python. `values`: of the results that are taken, None for the others; may be null. */
PyObject *entry_finish(entry *self, int32_t code, PyObject *out, PyObject *values);

/* A new array of the declared dtype and rank, over `data` where there is some. */
PyObject *entry_new_array(const place *declared, const int64_t *dims, void *data);
/* A number as an array, in that of the caller's where it gives one. */
PyObject *entry_word_result(const place *declared, uint64_t word, PyObject *out);
/* Runs the entry on each tuple of a list: returns the code of the last call that ran and the list of results; or None
 * where the case is not usual, and nothing has run. */
PyObject *entry_run_many(PyObject *object, PyObject *tuples);

/* An exact array of numpy, of the dtype and rank, with its elements in order. */
static inline bool place_fits(const place *declared, PyObject *value) {
    PyArrayObject *array = (PyArrayObject *)value;
    return PyArray_CheckExact(value) && (PyObject *)PyArray_DESCR(array) == declared->descr &&
           PyArray_NDIM(array) == declared->rank && PyArray_IS_C_CONTIGUOUS(array);
}

/* The array for a result, where there is one; null for none. */
static inline PyObject *entry_out(const entry *self, PyObject *out, uint32_t i) {
    PyObject *item = !out ? NULL : self->num_results == 1 ? out : PyTuple_GetItem(out, i);
    return item == Py_None ? NULL : item;
}

#endif
