/* Making tensors and views of them. */
#include "tensor.h"

bool tensor_count_elements(unsigned rank, const int64_t *dims, uint8_t dtype, int64_t *elements) {
    uint64_t count = 1;
    bool empty = false;
    for (unsigned i = 0; i < rank; i++) {
        if (dims[i] < 0) {
            return false;
        }
        if (dims[i] == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(count, (uint64_t)dims[i], &count) || count >= (uint64_t)RVM_MAX_BYTES) {
            return false;
        }
    }
    if (count * rvm_dtype_bytes[dtype] >= (uint64_t)RVM_MAX_BYTES) {
        return false;
    }
    *elements = empty ? 0 : (int64_t)count;
    return true;
}

static rvm_tensor *alloc_tensor(rvm_heap *heap, uint8_t dtype, unsigned rank, const int64_t *dims,
                                int64_t elements) {
    unsigned size_class = heap_size_class(sizeof(rvm_tensor) + rank * sizeof(int64_t));
    rvm_tensor *tensor = heap_alloc(heap, size_class);
    if (!tensor) {
        return NULL;
    }
    object_init(heap, &tensor->head, RVM_TENSOR, RVM_NO_LAYOUT, size_class);
    tensor->dtype = dtype;
    tensor->rank = (uint8_t)rank;
    tensor->elements = elements;
    for (unsigned i = 0; i < rank; i++) {
        tensor->dims[i] = dims[i];
    }
    return tensor;
}

/* Few bytes lie in the line of their storage, so that small tensors are few lines of a cache. */
static rvm_storage *alloc_storage(rvm_heap *heap, uint64_t bytes) {
    const bool is_small = bytes <= sizeof(rvm_storage);
    const uint64_t padded = (bytes + RVM_ALIGN_BYTES - 1) & ~(uint64_t)(RVM_ALIGN_BYTES - 1);
    const unsigned size_class = heap_size_class(RVM_ALIGN_BYTES + (is_small ? 0 : padded));
    uint8_t *block = heap_alloc(heap, size_class);
    if (!block) {
        return NULL;
    }
    rvm_storage *storage = block_storage(block);
    object_init(heap, &storage->head, RVM_STORAGE, RVM_NO_LAYOUT, size_class);
    storage->bytes = bytes;
    storage->data = is_small ? block : block + RVM_ALIGN_BYTES;
    storage->foreign = 0;
    return storage;
}

rvm_tensor *tensor_new(rvm_heap *heap, uint8_t dtype, unsigned rank, const int64_t *dims, int64_t elements) {
    rvm_tensor *tensor = alloc_tensor(heap, dtype, rank, dims, elements);
    if (!tensor) {
        return NULL;
    }
    tensor->storage = alloc_storage(heap, (uint64_t)elements * rvm_dtype_bytes[dtype]);
    if (!tensor->storage) {
        object_release(heap, &tensor->head);
        return NULL;
    }
    tensor->data = tensor->storage->data;
    return tensor;
}

rvm_tensor *tensor_wrap(rvm_heap *heap, uint8_t dtype, unsigned rank, const int64_t *dims, int64_t elements,
                        void *data) {
    rvm_tensor *tensor = alloc_tensor(heap, dtype, rank, dims, elements);
    if (!tensor) {
        return NULL;
    }
    tensor->storage = alloc_storage(heap, 0);
    if (!tensor->storage) {
        object_release(heap, &tensor->head);
        return NULL;
    }
    tensor->storage->foreign = 1;
    tensor->storage->bytes = (uint64_t)elements * rvm_dtype_bytes[dtype];
    tensor->data = tensor->storage->data = data;
    return tensor;
}

bool tensor_detach(rvm_heap *heap, rvm_tensor *tensor) {
    rvm_storage *storage = alloc_storage(heap, tensor_bytes(tensor));
    if (!storage) {
        return false;
    }
    if (tensor->elements) {
        memcpy(storage->data, tensor->data, tensor_bytes(tensor));
    }
    object_release(heap, &tensor->storage->head);
    tensor->storage = storage;
    tensor->data = storage->data;
    return true;
}

rvm_tensor *tensor_view(rvm_heap *heap, const rvm_tensor *base, unsigned rank, const int64_t *dims,
                        int64_t elements, uint64_t offset_bytes) {
    rvm_tensor *tensor = alloc_tensor(heap, base->dtype, rank, dims, elements);
    if (!tensor) {
        return NULL;
    }
    tensor->storage = base->storage;
    if (tensor->storage) {
        object_retain(&tensor->storage->head);
    }
    tensor->data = base->data + offset_bytes;
    return tensor;
}

uint64_t tensor_load_word(uint8_t dtype, const void *element) {
    uint64_t word = 0;
    memcpy(&word, element, rvm_dtype_bytes[dtype]);
    switch (dtype) {
    case RVM_DTYPE_BOOL:
        return word != 0;
    case RVM_DTYPE_INT8:
        return (uint64_t)(int64_t)(int8_t)word;
    case RVM_DTYPE_INT16:
        return (uint64_t)(int64_t)(int16_t)word;
    case RVM_DTYPE_INT32:
        return (uint64_t)(int64_t)(int32_t)word;
    default:
        return word;
    }
}
